"""Files and URIs: stores, fingerprints, and output that is written whole or not at all."""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ["Format"]

# Of tables, by the names of the files (auto), or as a tool writes them.
Format: TypeAlias = Literal[
    "auto", "csv", "parquet", "trec", "rectools", "lenskit", "recommenders", "warprec", "omnirec"
]
