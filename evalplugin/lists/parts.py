"""Lists that do not fit in memory: spread over partitions by user, scored one partition after the other."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from shutil import disk_usage
from typing import Any

import numpy as np
import numpy.typing as npt

from evalplugin.base.errors import DataError
from evalplugin.lists.columns import Ids, Source, ids_of
from evalplugin.lists.files import FileSource
from evalplugin.lists.frames import (
    Catalogue,
    Columns,
    Tables,
    blocks_of,
    blocks_on,
    need_catalogue,
)
from evalplugin.lists.vocabulary import check_kinds, encode
from evalplugin.metrics import MetricSpec
from evalplugin.metrics.scores import PerUserScores
from evalplugin.metrics.scoring import Scorer, check_request

__all__ = ["parts_for", "score_in_parts"]

_ITSELF = 500 * 2**20  # what Python, its libraries and a batch take before any list is held
_GROWTH = (
    8  # what scoring a partition takes at its peak, as a multiple of its columns: measured, shuffled rows
)
_MOST_PARTS = 500  # one open file each, and systems allow about 1000
_BATCH = 2**18  # rows read at a time
_HASH = np.uint64(0x9E3779B97F4A7C15)

Report = Callable[[str], None]


def parts_for(sources: Sequence[tuple[FileSource, Sequence[str]]], memory: int) -> int:
    """Return how many partitions keep the work within ``memory`` bytes; 1: everything fits at once."""
    needed = _GROWTH * sum(source.n_bytes(names) for source, names in sources)
    if needed + _ITSELF <= memory:
        return 1
    room = max(memory - _ITSELF, memory // 4)
    return min(max(2, -(-needed // room)), _MOST_PARTS)


def score_in_parts(
    lists: FileSource,
    truth: FileSource,
    train: Source | None,
    specs: Sequence[MetricSpec],
    columns: Columns,
    threshold: float | None,
    n_parts: int,
    *,
    curve_ks: Callable[[int], Sequence[int]] = lambda n: (),
    report: Report = lambda text: None,
) -> PerUserScores:
    """Return the same scores, to the last bit, as if all lists had been in memory.

    Rows are written to partitions by a hash of the user, in a temporary folder that goes away whatever
    happens; then one partition after the other is read back and scored. The train data is held as a whole.

    Raises:
        DataError: As for lists in memory; or there is no room on the disk for the partitions.
    """
    check_request(specs, train is not None)
    if train is not None and not len(train):
        raise DataError(f"{train.name}: there are no rows")
    with tempfile.TemporaryDirectory(prefix="evalplugin-parts-") as folder:
        both = [
            _Spilled(source, names, Path(folder) / source.role, n_parts)
            for source, names in (
                (lists, columns.of_lists(lists.path, lists.names)),
                (truth, columns.of_rated(truth.names)),
            )
        ]
        free, needed = disk_usage(folder).free, sum(one.n_bytes for one in both)
        if needed > free:
            raise DataError(
                f"{folder}: the partitions need {needed / 2**30:.1f} GB, but only {free / 2**30:.1f} GB are free; "
                f"set TMPDIR to a folder on another disk"
            )
        for one in both:
            report(f"spreading {one.source.role} over {n_parts} partitions")
            one.write()
        train_ids = None if train is None else _train(train, columns)
        for position, role in enumerate(("user", "item")):
            kinds = {one.source.role: one.sample[position] for one in both}
            if train_ids is not None:
                kinds["train"] = (train_ids[0], train_ids[1])[position]
            check_kinds(role, **kinds)
        return _score(both, train_ids, specs, columns, threshold, n_parts, curve_ks, report)


def _score(
    both: Sequence[_Spilled],
    train: tuple[Ids, Ids, npt.NDArray[Any] | None] | None,
    specs: Sequence[MetricSpec],
    columns: Columns,
    threshold: float | None,
    n_parts: int,
    curve_ks: Callable[[int], Sequence[int]],
    report: Report,
) -> PerUserScores:
    dense = need_catalogue(specs)
    report("looking for users and items")
    users, items, n = _overview(both, columns, n_parts, items=dense)
    catalogue = None
    if dense:
        everybody = [ids_of(users)] if train is None else [ids_of(users), train[0]]
        everything = [ids_of(items)] if train is None else [ids_of(items), train[1]]
        catalogue = Catalogue.of(encode(everybody)[0], encode(everything)[0], train)
    n_items = 0 if catalogue is None else len(catalogue.items)
    scorer = Scorer(specs, len(users), n, n_items, curve_ks=curve_ks(n))
    for number in range(n_parts):
        if number * 10 // n_parts != (number - 1) * 10 // n_parts:  # ten times, however many there are
            report(f"scoring partition {number + 1} of {n_parts}")
        tables = Tables.read(both[0].part(number), both[1].part(number), None, columns, empty=True)
        if not len(tables.user) and not len(tables.truth_user):
            continue
        if catalogue is None:
            free = blocks_of(tables, threshold, n)
            scorer.add(free, np.searchsorted(users, free.users))
        else:
            blocks = blocks_on(catalogue, tables, threshold, n)
            scorer.add(blocks, np.searchsorted(users, catalogue.users[blocks.user]))
    return scorer.result(users)


class _Spilled:
    """One table's rows, spread over files by a hash of the user."""

    def __init__(self, source: FileSource, names: Sequence[str], folder: Path, n_parts: int) -> None:
        self.source, self.names, self.folder, self.n_parts = source, names, folder, n_parts
        self.n_bytes = source.n_bytes(names)
        self.sample: tuple[Ids, Ids]

    def write(self) -> None:
        """Read the files once, and write every row to the partition of its user; values are checked here."""
        import pyarrow as pa

        self.folder.mkdir()
        sample: tuple[Ids, Ids] | None = None
        with ExitStack() as stack:
            writers: list[Any] = []
            for batch in self.source.batches(self.names, _BATCH):
                ids = batch.ids(self.names[0], "user"), batch.ids(self.names[1], "item")
                for role, ours, first in zip(("user", "item"), ids, sample or ids, strict=True):
                    check_kinds(role, **{"first rows": first, "rows behind them": ours})
                sample = sample or ids
                table = pa.table(
                    [_column(one) for one in ids] + [_number(batch, name) for name in self.names[2:]],
                    names=list(self.names),
                )
                part = _part_of(ids[0], self.n_parts)
                order = np.argsort(part, kind="stable")
                bounds = np.searchsorted(part[order], np.arange(self.n_parts + 1))
                table = table.take(pa.array(order))
                if not writers:
                    writers = [
                        stack.enter_context(pa.ipc.new_stream(self._file(number), table.schema))
                        for number in range(self.n_parts)
                    ]
                for number, writer in enumerate(writers):
                    low, high = bounds[number : number + 2].tolist()
                    if low < high:
                        writer.write_table(table.slice(low, high - low))
        if sample is None:
            raise DataError(f"{self.source.path}: there are no rows")
        self.sample = sample

    def part(self, number: int, names: Sequence[str] | None = None) -> Source:
        """Return the rows of one partition; where they stood in the files is not known any more."""
        import pyarrow as pa

        with pa.memory_map(self._file(number)) as file:
            table = pa.ipc.open_stream(file).read_all()
        return Source(
            table if names is None else table.select(list(names)), self.source.path, lambda row: "a row"
        )

    def _file(self, number: int) -> str:
        return str(self.folder / f"{number}.arrow")


def _overview(
    both: Sequence[_Spilled], columns: Columns, n_parts: int, *, items: bool
) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.generic], int]:
    """Return everybody of lists and truth, all their items if so asked, and the length of the longest list."""
    users: list[npt.NDArray[np.generic]] = []
    known: list[npt.NDArray[np.generic]] = []
    n = 1
    for number in range(n_parts):
        parts = [one.part(number) for one in both]
        names = [one.names for one in both]
        found, (code, _) = encode([p.ids(name[0], "user") for p, name in zip(parts, names, strict=True)])
        users.append(found)
        n = max(n, int(np.bincount(code).max(initial=0)))
        if items:
            of_part = encode([p.ids(name[1], "item") for p, name in zip(parts, names, strict=True)])[0]
            known = [encode([ids_of(np.concatenate([*known, of_part]))])[0]]
    everybody = np.concatenate(users)
    return np.sort(everybody), known[0] if known else everybody[:0], n


def _train(train: Source, columns: Columns) -> tuple[Ids, Ids, npt.NDArray[Any] | None]:
    user, item = columns.of_truth()
    rating = columns.rating_of(train.columns, "train")
    numbers = None if rating is None else train.numbers(rating, "rating", "ratings must be finite numbers")
    return train.ids(user, "user"), train.ids(item, "item"), numbers


def _part_of(user: Ids, n_parts: int) -> npt.NDArray[np.uint16]:
    """Return each row's partition: the same for the same user, wherever it stands."""
    if user.kind == "integers":
        hashed: npt.NDArray[np.uint64] = user.values.astype(np.int64).view(np.uint64) * _HASH >> np.uint64(40)
        return (hashed % np.uint64(n_parts)).astype(np.uint16)
    encoded = user.values.dictionary_encode()
    parts = [zlib.crc32(text.encode()) % n_parts for text in encoded.dictionary.to_pylist()]
    part_of_text: npt.NDArray[np.uint16] = np.array(parts, dtype=np.uint16)
    codes: npt.NDArray[np.integer[Any]] = encoded.indices.to_numpy(zero_copy_only=False)
    part: npt.NDArray[np.uint16] = part_of_text[codes]
    return part


def _column(ids: Ids) -> Any:
    import pyarrow as pa

    # One type for all files: they may hold the same ids in columns of several widths.
    if ids.kind == "integers":
        return pa.array(ids.values.astype(np.int64, copy=False))
    return ids.values.cast(pa.large_string())


def _number(batch: Source, name: str) -> Any:
    import pyarrow as pa

    values = batch.numbers(name, name, f"{name} must be a finite number")
    return pa.array(values.astype(np.float64 if values.dtype.kind == "f" else np.int64, copy=False))
