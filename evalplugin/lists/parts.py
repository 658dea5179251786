"""Lists larger than memory, scored one partition of users after the other."""

from __future__ import annotations

import tempfile
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from shutil import disk_usage
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from evalplugin.base.errors import DataError
from evalplugin.data.files import TableFiles
from evalplugin.data.tables import Ids, Table, ids_of
from evalplugin.data.vocabulary import check_kinds, encode
from evalplugin.lists.catalogue import Catalogue
from evalplugin.lists.columns import ListColumns, ListInput, PairColumns, Role
from evalplugin.lists.files import n_bytes
from evalplugin.lists.scoring import blocks_of, need_catalogue
from evalplugin.metrics import Blocks, MetricSpec
from evalplugin.metrics.scores import PerUserScores
from evalplugin.metrics.scoring import Scorer, check_request
from evalplugin.models.threads import thread_count

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["parts_for", "score_in_parts"]

_BASE_BYTES = 500 * 2**20  # memory of Python, its libraries and a batch, before any list is read
# Peak memory of scoring a partition as a multiple of its columns: measured on shuffled rows.
_GROWTH = 8
_MAX_PARTS = 500  # one open file each, and systems allow about 1000
_BATCH = 2**18  # rows read at a time
_HASH = np.uint64(0x9E3779B97F4A7C15)

_MAX_THREADS = 4

Report = Callable[[str], None]
T = TypeVar("T")
R = TypeVar("R")


def parts_for(sources: Mapping[Role, TableFiles | Table], columns: ListColumns, memory: int) -> int:
    """Return the number of partitions that limits memory to ``memory`` bytes; 1: everything fits at once."""
    needed = 0
    for role in ("lists", "truth"):
        source, names = sources[role], columns.of(role, sources[role].name, sources[role].columns)
        if isinstance(source, TableFiles):
            needed += _GROWTH * n_bytes(source, names.values())
    if needed + _BASE_BYTES <= memory:
        return 1
    available = max(memory - _BASE_BYTES, memory // 4) // _threads()  # each thread has a partition in memory
    return min(max(2, -(-needed // available)), _MAX_PARTS)


def score_in_parts(
    lists: TableFiles,
    truth: TableFiles,
    train: Table | None,
    specs: Sequence[MetricSpec],
    columns: ListColumns,
    threshold: float | None,
    n_parts: int,
    *,
    curve_ks: Callable[[int], Sequence[int]],
    report: Report,
) -> PerUserScores:
    """Return the same scores, to the last bit, as if all lists had been in memory.

    Rows are written to partitions by a hash of the user, in a temporary folder that is always removed; then one
    partition after the other is read back and scored. The train data stays in memory.

    Raises:
        DataError: As for lists in memory; or the disk is too small for the partitions.
    """
    check_request(specs, train is not None)
    if train is not None and not len(train):
        raise DataError(f"{train.name}: there are no rows")
    with tempfile.TemporaryDirectory(prefix="evalplugin-parts-") as folder:
        tables = [
            _PartitionedTable(lists, "lists", columns, Path(folder), n_parts),
            _PartitionedTable(truth, "truth", columns, Path(folder), n_parts),
        ]
        free, needed = disk_usage(folder).free, sum(table.n_bytes for table in tables)
        if needed > free:
            raise DataError(
                f"{folder}: the partitions need {needed / 2**30:.1f} GB, but only {free / 2**30:.1f} GB are free; "
                f"set TMPDIR to a folder on another disk"
            )
        for table in tables:
            report(f"spreading {table.role} over {n_parts} partitions")
            table.write()
        history = None if train is None else PairColumns.read(train, "train", columns)
        samples = {table.role: table.sample for table in tables} | (
            {} if history is None else {"train": history}
        )
        check_kinds("user", **{role: pairs.user for role, pairs in samples.items()})
        check_kinds("item", **{role: pairs.item for role, pairs in samples.items()})
        return _score(tables, history, specs, columns, threshold, n_parts, curve_ks, report)


def _score(
    tables: Sequence[_PartitionedTable],
    train: PairColumns | None,
    specs: Sequence[MetricSpec],
    columns: ListColumns,
    threshold: float | None,
    n_parts: int,
    curve_ks: Callable[[int], Sequence[int]],
    report: Report,
) -> PerUserScores:
    needs_catalogue = need_catalogue(specs)
    report("looking for users and items")
    users, items, n = _vocabularies(tables, n_parts, items=needs_catalogue)
    catalogue = None
    if needs_catalogue:
        all_users = [ids_of(users)] if train is None else [ids_of(users), train.user]
        all_items = [ids_of(items)] if train is None else [ids_of(items), train.item]
        catalogue = Catalogue.of(encode(all_users)[0], encode(all_items)[0], train)
    n_items = 0 if catalogue is None else len(catalogue.items)
    scorer = Scorer(specs, len(users), n, n_items, curve_ks=curve_ks(n))

    def blocks_of_part(number: int) -> Blocks | None:
        lists, truth = (table.part(number) for table in tables)
        inputs = ListInput.read(lists, truth, None, columns, empty=True)
        is_empty = not len(inputs.lists.user) and not len(inputs.truth.user)
        return None if is_empty else blocks_of(inputs, threshold, catalogue, n)

    for number, blocks in enumerate(_in_threads(blocks_of_part, range(n_parts))):
        if number * 10 // n_parts != (number - 1) * 10 // n_parts:  # ten reports at most
            report(f"scoring partition {number + 1} of {n_parts}")
        if blocks is not None:
            scorer.add(blocks, np.searchsorted(users, blocks.users))
    return scorer.result(users)


def _in_threads(work: Callable[[T], R], inputs: Iterable[T]) -> Iterator[R]:
    """Yield the results of ``work`` in the order of the inputs; other threads work on the next ones meanwhile."""
    with ThreadPoolExecutor(_threads()) as pool:
        pending: deque[Future[R]] = deque()
        for one in inputs:
            pending.append(pool.submit(work, one))
            if len(pending) == _threads():
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def _threads() -> int:
    return min(_MAX_THREADS, thread_count())


class _PartitionedTable:
    """The rows of one table, partitioned into files by a hash of the user."""

    sample: PairColumns  # the first batch

    def __init__(
        self, source: TableFiles, role: Role, columns: ListColumns, folder: Path, n_parts: int
    ) -> None:
        self.source, self.role, self.columns, self.n_parts = source, role, columns, n_parts
        self.folder, self.names = folder / role, columns.of(role, source.name, source.columns)
        self.n_bytes = n_bytes(source, self.names.values())

    def write(self) -> None:
        """Read the files once, check the values, and write every row to the partition of its user."""
        import pyarrow as pa

        self.folder.mkdir()
        with ExitStack() as stack:
            writers: list[Any] = []
            for pairs, table, bounds in _in_threads(self._spread, self.source.batches(self.names, _BATCH)):
                if not writers:
                    self.sample = pairs
                    writers = [
                        stack.enter_context(pa.ipc.new_stream(self._file(number), table.schema))
                        for number in range(self.n_parts)
                    ]
                for role in ("user", "item"):
                    first, current = getattr(self.sample, role), getattr(pairs, role)
                    check_kinds(role, **{"first rows": first, "rows behind them": current})
                for number, writer in enumerate(writers):
                    low, high = bounds[number : number + 2].tolist()
                    if low < high:
                        writer.write_table(table.slice(low, high - low))
        if not writers:
            raise DataError(f"{self.source.name}: there are no rows")

    def _spread(self, batch: Table) -> tuple[PairColumns, pa.Table, npt.NDArray[np.int64]]:
        """Return a batch: its columns, its rows by partition, and where each partition starts and the last one ends."""
        import pyarrow as pa

        pairs = PairColumns.read(batch, self.role, self.columns)
        part = _part_of(pairs.user, self.n_parts)
        order = np.argsort(part, kind="stable")
        bounds = np.searchsorted(part[order], np.arange(self.n_parts + 1))
        return pairs, _arrow(pairs, list(self.names.values())).take(pa.array(order)), bounds

    def part(self, number: int) -> Table:
        """Return the rows of one partition; their positions in the files are unknown."""
        import pyarrow as pa

        with pa.memory_map(self._file(number)) as file:
            table = pa.ipc.open_stream(file).read_all()
        return Table(table, self.source.name, lambda row: "a row")

    def _file(self, number: int) -> str:
        return str(self.folder / f"{number}.arrow")


def _vocabularies(
    tables: Sequence[_PartitionedTable], n_parts: int, *, items: bool
) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.generic], int]:
    """Return all users of lists and truth, all ``items`` if needed, and the length of the longest list."""
    users: list[npt.NDArray[np.generic]] = []
    known: list[npt.NDArray[np.generic]] = []
    n = 1

    def of_part(number: int) -> tuple[npt.NDArray[np.generic], int, npt.NDArray[np.generic]]:
        parts = [(table.part(number), table.names) for table in tables]
        found, (code, _) = encode([part.ids(names["user"], "user") for part, names in parts])
        listed = encode([part.ids(names["item"], "item") for part, names in parts])[0] if items else found[:0]
        return found, int(np.bincount(code).max(initial=0)), listed

    for found, longest, listed in _in_threads(of_part, range(n_parts)):
        users.append(found)
        n = max(n, longest)
        if items:
            known = [encode([ids_of(np.concatenate([*known, listed]))])[0]]
    all_users = np.concatenate(users)
    return np.sort(all_users), known[0] if known else all_users[:0], n


def _part_of(user: Ids, n_parts: int) -> npt.NDArray[np.uint16]:
    """Return each row's partition, which depends on the user alone."""
    if user.kind == "integers":
        hashed: npt.NDArray[np.uint64] = user.values.astype(np.int64).view(np.uint64) * _HASH >> np.uint64(40)
        return (hashed % np.uint64(n_parts)).astype(np.uint16)
    import pyarrow as pa

    encoded = user.values.dictionary_encode()
    texts = encoded.dictionary.cast(pa.large_binary()).to_pylist()
    parts = [zlib.crc32(text) % n_parts for text in texts]
    part_of_text: npt.NDArray[np.uint16] = np.array(parts, dtype=np.uint16)
    codes: npt.NDArray[np.integer[Any]] = encoded.indices.to_numpy(zero_copy_only=False)
    part: npt.NDArray[np.uint16] = part_of_text[codes]
    return part


def _arrow(pairs: PairColumns, names: list[str]) -> Any:
    """Return pairs as an Arrow table with the same types for all files, whose columns may differ in width."""
    import pyarrow as pa

    columns = [
        pa.array(ids.values.astype(np.int64, copy=False))
        if ids.kind == "integers"
        else ids.values.cast(pa.large_string())
        for ids in (pairs.user, pairs.item)
    ]
    if pairs.values is not None:
        kind = np.int64 if pairs.kind == "rank" else np.float64
        columns.append(pa.array(pairs.values.astype(kind, copy=False)))
    return pa.table(columns, names=names)
