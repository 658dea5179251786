"""The manifest of a table that is too large for its run: the table's URI, and what tells that it is the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import PurePosixPath

__all__ = ["MANIFEST_FORMAT", "Manifest", "manifest_path", "sample_path"]

MANIFEST_FORMAT = 1


def manifest_path(path: str) -> str:
    """Return the path in the run of a table's manifest: ``data/top_n.manifest.json`` of ``data/top_n.parquet``."""
    return str(PurePosixPath(path).with_suffix(".manifest.json"))


def sample_path(path: str) -> str:
    """Return the path in the run of a table's sample: ``data/top_n.sample.parquet`` of ``data/top_n.parquet``."""
    return str(PurePosixPath(path).with_suffix(".sample.parquet"))


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A Parquet file outside of its run: its URI, digest and size."""

    format: int  # of the manifest
    artifact: str  # its path in the run, if it were there
    uri: str
    sha256: str
    size: int  # bytes
    rows: int
    columns: Mapping[str, str]  # name -> type, as Arrow calls it
    sample: str  # path in the run of a Parquet file with all rows of some users
    sample_users: int
    sample_rows: int

    def to_json(self) -> bytes:
        """Return the manifest as a file."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False).encode()

    @classmethod
    def of(cls, content: bytes) -> Manifest:
        """Return the manifest that a file holds.

        Raises:
            ValueError: It is none, or one of a later version; the message continues "the artifact ...".
        """
        try:
            values = json.loads(content)
            found = cls(**{field.name: values[field.name] for field in fields(cls)})
        except (ValueError, TypeError, KeyError):
            raise ValueError("is no manifest of a table") from None
        if found.format > MANIFEST_FORMAT:
            raise ValueError(
                f"has the format {found.format!r} of a later version of evalplugin; this one reads {MANIFEST_FORMAT}"
            )
        return found
