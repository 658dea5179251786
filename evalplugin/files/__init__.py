"""Files and URIs: stores, fingerprints, and output that is written whole or not at all."""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ["Format"]

Format: TypeAlias = Literal["auto", "csv", "parquet", "trec"]  # of tables; auto: by the names of the files
