"""Tables outside of their run, read by the manifest that the run has in their place."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from evalplugin.base.errors import DataError, TrackingError
from evalplugin.base.files import check_digest
from evalplugin.tracking.manifest import Manifest
from evalplugin.tracking.objects import copy_object
from evalplugin.tracking.read.tables import read_table

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_large_table"]


def read_large_table(manifest: Path, name: str, run: str) -> pa.Table:
    """Return the table that a manifest leads to, downloaded and compared with its digest; ``run`` in words.

    Raises:
        TrackingError: It is not there, or its store refuses or cannot be reached.
        ValueError: It was changed, or is no such table; the message continues "the artifact ...".
    """
    found = Manifest.of(manifest.read_bytes())
    with tempfile.TemporaryDirectory(prefix="evalplugin-") as folder:
        file = Path(folder, "table.parquet")
        try:
            copy_object(found.uri, file)
            check_digest(file, found.sha256)
            return read_table(file, name)
        except DataError as error:
            raise TrackingError(
                f"{run}: {found.artifact} is outside of the run and cannot be read: {error}. If it is gone for good, "
                f"run the bake-off again (steps in the cache are not computed again), or name other runs"
            ) from None
        except ValueError as error:
            raise ValueError(f"leads to {found.uri}, which {error}") from None
