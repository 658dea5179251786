"""Tables that are too large to be uploaded to MLflow: written to a URI, with a manifest and a sample in the run."""

from __future__ import annotations

import re
import secrets
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from evalplugin.base.errors import DataError, TrackingError
from evalplugin.base.files import file_digest
from evalplugin.base.units import size_text
from evalplugin.tracking.manifest import MANIFEST_FORMAT, Manifest, manifest_path, sample_path
from evalplugin.tracking.objects import remove_object, uri_below, write_object
from evalplugin.tracking.write.sampling import sampled_users

__all__ = ["LARGE", "SAMPLE_USERS", "LargeTables"]

# A request to MLflow's server ends after 30 s unless it is told otherwise, and one through a proxy often after 60 s.
# In 30 s, 100 MB pass at 28 Mbit/s; uploads of more fail at many sites (issues 7564, 8539 and 8963 of MLflow).
LARGE = 100 * 2**20  # bytes of a file
SAMPLE_USERS = 10_000  # users


@dataclass
class LargeTables:
    """The place of a bake-off's large tables, by run; with ``uri`` None they stay in the runs.

    A table is ``data/NAME.parquet`` with a column ``user``; it is large if its file has more than ``LARGE`` bytes.
    """

    uri: str | None = None  # of a folder
    experiment: str = ""  # its name
    warn: Callable[[str], object] = lambda text: None  # receives one sentence, once
    _warned: bool = field(default=False, repr=False)

    def check(self) -> None:
        """Check that the folder can be written to, by a small file that is removed again.

        Raises:
            DataError: It cannot.
        """
        if self.uri is None:
            return
        probe = uri_below(self.uri, f".evalplugin-{secrets.token_hex(8)}")
        with tempfile.NamedTemporaryFile(prefix="evalplugin-") as file:
            file.write(b"evalplugin looks whether it can write here\n")
            file.flush()
            try:
                write_object(Path(file.name), probe)
                remove_object(probe)
            except DataError as error:
                raise DataError(f"tracking.large_artifacts: {error}") from None

    def moved(self, run_id: str, folder: Path, paths: Iterable[str]) -> list[str]:
        """Return the paths of the files to log, with manifest and sample in place of each large table.

        Args:
            run_id: The run.
            folder: Holds the files; a table that was moved is no longer there.
            paths: Of the files, in the run.

        Raises:
            TrackingError: A table cannot be written to its URI.
        """
        kept = []
        for path in paths:
            if not _is_large_table(folder / path, path):
                kept.append(path)
            elif self.uri is None:
                self._warn_of(folder / path, path)
                kept.append(path)
            else:
                uri = uri_below(self.uri, _as_folder(self.experiment), run_id, path)
                try:
                    _move(folder, path, uri)
                except DataError as error:
                    raise TrackingError(f"{path} of the run {run_id} cannot be written: {error}") from None
                kept += [manifest_path(path), sample_path(path)]
        return kept

    def _warn_of(self, file: Path, path: str) -> None:
        if not self._warned:
            self._warned = True
            self.warn(
                f"{path} of a run has {size_text(file.stat().st_size)}: servers of MLflow often refuse such uploads. "
                f"tracking: {{large_artifacts: s3://bucket/folder}} writes files of more than {size_text(LARGE)} "
                f"there, with a manifest and a sample in the run"
            )


def _is_large_table(file: Path, path: str) -> bool:
    import pyarrow.parquet as pq

    if not (path.startswith("data/") and path.endswith(".parquet")) or file.stat().st_size <= LARGE:
        return False
    return "user" in pq.read_schema(file).names


def _as_folder(experiment: str) -> str:
    """Return the name of an experiment without what a path or a URI cannot hold; the run's id tells it apart."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", experiment).strip("-.") or "experiment"


def _move(folder: Path, path: str, uri: str) -> None:
    """Write a file to a URI, and its manifest and its sample in its place."""
    import pyarrow.parquet as pq

    file = folder / path
    digest = file_digest(file)
    write_object(file, uri)
    users, rows = _write_sample(file, folder / sample_path(path))
    with pq.ParquetFile(file) as table:
        manifest = Manifest(
            format=MANIFEST_FORMAT,
            artifact=path,
            uri=uri,
            sha256=digest,
            size=file.stat().st_size,
            rows=table.metadata.num_rows,
            columns={column.name: str(column.type) for column in table.schema_arrow},
            sample=sample_path(path),
            sample_users=users,
            sample_rows=rows,
        )
    (folder / manifest_path(path)).write_bytes(manifest.to_json())
    file.unlink()


def _write_sample(file: Path, target: Path) -> tuple[int, int]:
    """Write all rows of some users; return how many users and rows. No more than a part of the file is in memory."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as table:
        users = pc.unique(pq.read_table(file, columns=["user"])["user"])
        chosen = users.take(sampled_users(users.to_numpy(zero_copy_only=False), SAMPLE_USERS))
        rows = 0
        with pq.ParquetWriter(target, table.schema_arrow, compression="zstd") as writer:
            for batch in table.iter_batches():
                part = batch.filter(pc.is_in(batch["user"], value_set=chosen))
                rows += len(part)
                writer.write_batch(part)
    return len(chosen), rows
