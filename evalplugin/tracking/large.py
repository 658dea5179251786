"""Tables that are too large for MLflow: at a URI, with a manifest and a sample in their run; written and read back."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np
import numpy.typing as npt

from evalplugin.base.errors import DataError, TrackingError
from evalplugin.base.fingerprint import check_digest, file_digest
from evalplugin.base.libraries import pa, pc, pd, pq
from evalplugin.base.units import size_text
from evalplugin.files.outputs import open_output
from evalplugin.files.remote import RemoteFile, store_errors
from evalplugin.files.stores import store_of
from evalplugin.files.uris import is_remote, local_path
from evalplugin.tracking.read.tables import read_table

_FORMAT = 1
# A request to MLflow's server ends after 30 s unless it is told otherwise, and one through a proxy often after 60 s.
# In 30 s, 100 MB pass at 28 Mbit/s; uploads of more fail at many sites (issues 7564, 8539 and 8963 of MLflow).
LARGE = 100 * 2**20  # bytes of a file
SAMPLE_USERS = 10_000  # users
_CHUNK = 2**23  # bytes


@dataclass
class LargeTables:
    """The place of a bake-off's large tables, by run; with ``uri`` None they stay in the runs.

    A table is ``data/NAME.parquet`` with a column ``user``; it is large if its file has more than ``LARGE`` bytes.
    """

    uri: str | None = None  # of a folder
    experiment: str = ""  # its name
    warn: Callable[[str], object] | None = None  # receives one sentence, once
    _warned: bool = field(default=False, repr=False)

    def check(self) -> None:
        """Check that the folder can be written to, by a small file that is removed again.

        Raises:
            DataError: It cannot.
        """
        if self.uri is None:
            return
        probe = _uri_below(self.uri, f".evalplugin-{secrets.token_hex(8)}")
        try:
            with _output(probe) as file:
                file.write(b"evalplugin looks whether it can write here\n")
            with store_errors(probe):
                if is_remote(probe):
                    store = store_of(probe)
                    store.files.delete_file(store.path_of(probe))
                else:
                    local_path(probe).unlink()
        except DataError as error:
            raise DataError(f"tracking.large_artifacts: {error}") from None

    def moved(self, run_id: str, folder: Path, paths: Iterable[str]) -> list[str]:
        """Return the paths of a run's files to log, with manifest and sample in place of each large table.

        A table that was moved is no longer in the ``folder`` of the files.

        Raises:
            TrackingError: A table cannot be written to its URI.
        """
        kept = []
        for path in paths:
            if not _is_large_table(folder / path, path):
                kept.append(path)
            elif self.uri is None:
                kept.append(path)
                if self.warn is not None and not self._warned:
                    self._warned = True
                    self.warn(
                        f"{path} of a run has {size_text((folder / path).stat().st_size)}: servers of MLflow often "
                        f"refuse such uploads. tracking: {{large_artifacts: s3://bucket/folder}} writes files of more "
                        f"than {size_text(LARGE)} there, with a manifest and a sample in the run"
                    )
            else:
                # Without characters that a path or a URI cannot hold: the run's id tells experiments apart.
                name = re.sub(r"[^A-Za-z0-9._-]+", "-", self.experiment).strip("-.") or "experiment"
                uri = _uri_below(self.uri, name, run_id, path)
                try:
                    _move(folder, path, uri)
                except DataError as error:
                    raise TrackingError(f"{path} of the run {run_id} cannot be written: {error}") from None
                kept += [manifest_path(path), _sample_path(path)]
        return kept


def _is_large_table(file: Path, path: str) -> bool:
    if not (path.startswith("data/") and path.endswith(".parquet")) or file.stat().st_size <= LARGE:
        return False
    return "user" in pq.read_schema(file).names


def _move(folder: Path, path: str, uri: str) -> None:
    """Write a file to a URI, and its manifest and its sample in its place."""
    file = folder / path
    digest = file_digest(file)
    with file.open("rb") as source, _output(uri) as target:
        shutil.copyfileobj(source, target, _CHUNK)
    users, rows = _write_sample(file, folder / _sample_path(path))
    with pq.ParquetFile(file) as table:
        manifest = Manifest(
            format=_FORMAT,
            artifact=path,
            uri=uri,
            sha256=digest,
            size=file.stat().st_size,
            rows=table.metadata.num_rows,
            columns={column.name: str(column.type) for column in table.schema_arrow},
            sample=_sample_path(path),
            sample_users=users,
            sample_rows=rows,
        )
    content = json.dumps(asdict(manifest), indent=1, ensure_ascii=False).encode()
    (folder / manifest_path(path)).write_bytes(content)
    file.unlink()


def _write_sample(file: Path, target: Path) -> tuple[int, int]:
    """Write all rows of some users; return how many users and rows. No more than a part of the file is in memory."""
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


def manifest_path(path: str) -> str:
    """Return the path in the run of a table's manifest: ``data/top_n.manifest.json`` of ``data/top_n.parquet``."""
    return str(PurePosixPath(path).with_suffix(".manifest.json"))


def _sample_path(path: str) -> str:
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

    @classmethod
    def of(cls, content: bytes) -> Manifest:
        """Return the manifest that a file holds.

        Raises:
            ValueError: It is malformed, or of a later version; the message continues "the artifact ...".
        """
        try:
            values = json.loads(content)
            manifest = cls(**{field.name: values[field.name] for field in fields(cls)})
        except (ValueError, TypeError, KeyError):
            raise ValueError("is not a manifest of a table") from None
        if manifest.format > _FORMAT:
            raise ValueError(
                f"has the format {manifest.format!r} of a later version of evalplugin; this one reads {_FORMAT}"
            )
        return manifest


def read_large_table(manifest: Path, name: str, run: str) -> pa.Table:
    """Return the table that a manifest leads to, downloaded and compared with its digest; ``run`` in words.

    Raises:
        TrackingError: It is not there, or its store refuses or cannot be reached.
        ValueError: It was changed, or breaks a rule of such tables; the message continues "the artifact ...".
    """
    table = Manifest.of(manifest.read_bytes())
    uri = table.uri
    with tempfile.TemporaryDirectory(prefix="evalplugin-") as folder:
        file = Path(folder, "table.parquet")
        try:
            with store_errors(uri):
                is_file = not is_remote(uri)
                opened: IO[bytes] = local_path(uri).open("rb") if is_file else RemoteFile(uri, 0, 0).stream()
                with opened as source, file.open("wb") as target:
                    shutil.copyfileobj(source, target, _CHUNK)
            check_digest(file, table.sha256)
            return read_table(file, name)
        except DataError as error:
            raise TrackingError(
                f"{run}: {table.artifact} is outside of the run and cannot be read: {error}. If it is gone for good, "
                f"run the bake-off again (steps in the cache are not computed again), or name other runs"
            ) from None
        except ValueError as error:
            raise ValueError(f"leads to {uri}, which {error}") from None


def sampled_users(users: npt.NDArray[np.generic], size: int) -> npt.NDArray[np.intp]:
    """Return the positions of at most ``size`` users, ascending, those with the smallest hash of their id.

    So every run samples the same users, and tables can be joined.
    """
    if len(users) <= size:
        return np.arange(len(users))
    hashes = pd.util.hash_array(np.asarray(users), categorize=False)
    return np.sort(np.argsort(hashes, kind="stable")[:size])


def _uri_below(folder: str, *names: str) -> str:
    """Return the URI of a file below a folder, which may be a path: it is made absolute."""
    if not is_remote(folder):
        folder = local_path(folder).expanduser().absolute().as_uri()
    return "/".join([folder.rstrip("/"), *names])


@contextmanager
def _output(uri: str) -> Iterator[IO[bytes]]:
    """Yield a file that appears at a URI whole or not at all; missing folders are made."""
    with store_errors(uri):
        if not is_remote(uri):
            local_path(uri).parent.mkdir(parents=True, exist_ok=True)
        with open_output(uri) as file:
            yield file
