"""Tables outside of their run, read by the manifest that the run has in their place."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from evalplugin.base.errors import DataError
from evalplugin.tracking.manifest import Manifest
from evalplugin.tracking.objects import copy_object
from evalplugin.tracking.read.digests import check_digest
from evalplugin.tracking.read.tables import read_table

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_large_table"]


def read_large_table(manifest: Path, name: str) -> pa.Table:
    """Return the table that a manifest leads to, downloaded and compared with its digest.

    Raises:
        ValueError: It is not there, was changed, or cannot be read; the message continues "the artifact ...".
    """
    found = Manifest.of(manifest.read_bytes())
    with tempfile.TemporaryDirectory(prefix="evalplugin-") as folder:
        file = Path(folder, "table.parquet")
        try:
            copy_object(found.uri, file)
            check_digest(file, found.sha256)
            return read_table(file, name)
        except DataError as error:
            raise ValueError(f"leads to a file that cannot be read: {error}") from None
        except ValueError as error:
            raise ValueError(f"leads to {found.uri}, which {error}") from None
