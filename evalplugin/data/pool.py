"""The pool of ``candidates: given``: a table of the items that each user's list is chosen from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Flags, Ints, search
from evalplugin.base.errors import DataError, KeyPath, Problem
from evalplugin.base.numbers import share
from evalplugin.base.units import count_text, plural
from evalplugin.data.attributes import column_problems, open_attributes
from evalplugin.data.base import Split
from evalplugin.data.candidates import Candidates
from evalplugin.data.decisions import ALL_ITEMS, check_shown
from evalplugin.data.formats import CsvFormat
from evalplugin.data.interactions import Rows
from evalplugin.data.queries import Unit
from evalplugin.data.vocabulary import matched


@dataclass(frozen=True, eq=False)
class Pooled:
    """Candidates, and what was counted where a pool names them."""

    candidates: Candidates
    covered: float = 1.0  # share of the relevant truth that is in the pool
    notes: tuple[str, ...] = ()


_PLACES = ("{dataset}", "{split}", "{fold}")  # what stands for a name or a number in a path


@dataclass(frozen=True)
class PoolTable:
    """A table of user and item: a CSV or Parquet file, or one for each dataset, split or fold."""

    path: str  # relative to the config, or a URI; with placeholders
    user: str = "user"
    item: str = "item"
    separator: str = ","
    keeps_seen: bool = False  # whether pairs that the train data has are ranked too

    def at(self, dataset: str, split: str, fold: int | str) -> str:
        """Return the path for a dataset, a split and a fold."""
        path = self.path
        for place, value in zip(_PLACES, (dataset, split, fold), strict=True):
            path = path.replace(place, str(value))
        return path

    def check(self, base: Path, dataset: str, split: str) -> list[Problem]:
        """Return the problems of the files and their columns, found without reading rows."""
        try:
            source = open_attributes(base, self.at(dataset, split, "*"), self.separator)
        except DataError as error:
            return [Problem(("path",), str(error))]
        named: dict[KeyPath, str] = {("user",): self.user, ("item",): self.item}
        if self.user == self.item:
            return [
                Problem(("item",), f"column {self.item!r} cannot be both user and item: name two columns")
            ]
        return column_problems(source, named)

    def candidates(self, base: Path, path: str, fold: Split, relevant: Flags) -> Pooled:
        """Return the candidates of a fold's test users.

        Args:
            base: Folder of a relative path.
            path: From ``at``.
            fold: The fold.
            relevant: Whether each test interaction is relevant (len(fold.test),).

        Raises:
            DataError: The table is missing, empty or breaks a rule, has none of the relevant truth; of a log, it
                lacks what was shown, or has items that the data does not have.
        """
        test = fold.test
        source = open_attributes(base, path, self.separator)
        text = [
            role
            for role, ids in (("user", test.users), ("item", test.items))
            if ids.dtype == object  # ids of a CSV file are read as those of the data
        ]
        if isinstance(source.format, CsvFormat):
            source = replace(source, format=replace(source.format, text=text))
        table = source.read({"user": self.user, "item": self.item})
        if not len(table):
            raise DataError(f"{table.name}: there are no rows, and a pool needs some")
        tested = test.users[np.unique(test.user)]
        users = matched(table, self.user, "user", test.users, noun=fold.unit, examples=tested)
        items = matched(table, self.item, "item", test.items)
        codes = [ids.code[ids.position] for ids in (users, items)]
        pair = codes[0].astype(np.int64) * test.n_items + codes[1]
        pair = np.sort(pair[(codes[0] >= 0) & (codes[1] >= 0)])
        # Several times faster than np.unique, which hashes.
        different = pair[np.diff(pair, prepend=-1) > 0]
        unknown = {role: ids.ids[ids.code < 0] for role, ids in (("user", users), ("item", items))}
        reading = _Reading(Path(path).name, len(table), different, len(pair), unknown)
        pooled = reading.on(fold, relevant, keeps_seen=self.keeps_seen)
        if test.is_log:
            if len(strange := unknown["item"]):
                raise DataError(
                    f"{table.name}: {count_text(len(strange), 'item')} not in the data, such as "
                    f"{_examples(strange, 1)}: {ALL_ITEMS}"
                )
            check_shown(test, pooled.candidates)
        forms = (f"pool {reading.name}: {note}" for note in (*table.notes, *users.notes, *items.notes))
        return replace(pooled, notes=(*pooled.notes, *forms))


@dataclass(frozen=True, eq=False)
class _Reading:
    """The pairs of a pool, on the codes of the data."""

    name: str
    rows: int
    pair: Ints  # ascending, of users and items that the data has
    n_pairs: int  # with those that stand twice
    unknown: dict[str, npt.NDArray[np.generic]] = field(repr=False)  # ids by role

    def on(self, fold: Split, relevant: Flags, *, keeps_seen: bool) -> Pooled:
        """Return the candidates of the test users of a fold."""
        test = fold.test
        tested = np.bincount(test.user, minlength=test.n_users) > 0
        user, item = np.divmod(self.pair, test.n_items)
        untested = int((~tested[user]).sum())
        seen = search(fold.known.pairs(), self.pair)[1] & tested[user]
        kept = tested[user] if keeps_seen else tested[user] & ~seen
        pair, user, item = self.pair[kept], user[kept], item[kept]
        truth = (test.user.astype(np.int64) * test.n_items + test.item)[relevant]
        inside = search(pair, truth)[1]
        if not inside.any():
            raise DataError(
                f"{self.name} has none of the {count_text(len(truth), 'relevant held-out item')}, so that every model "
                f"would score 0: is it the pool of this split, seed and fold, and does it have what is held out?"
            )
        indptr = np.searchsorted(user, np.arange(test.n_users + 1))
        rows = Rows(indptr.astype(np.int64), item.astype(np.int32), np.zeros(len(item), dtype=np.float32))
        covered = float(inside.mean())
        notes = list(self._left_out(untested, fold.unit))
        if seen.any():
            place = "history of the query" if fold.unit == "query" else "train data"
            are = f"{count_text(int(seen.sum()), 'pair')} {'is' if seen.sum() == 1 else 'are'} in the {place}"
            treatment = "ranked too" if keeps_seen else "left out (recommend.seen: keep ranks such pairs)"
            notes.append(f"pool {self.name}: {are}: {treatment}")
        notes += self._sizes(fold, rows, tested)
        notes.append(
            f"pool {self.name}: it has {inside.sum():,} of {count_text(len(truth), 'relevant held-out item')} "
            f"({share(covered)}): no model can list the others (metric pool_recall)"
        )
        return Pooled(Candidates("given", included=rows), covered, tuple(notes))

    def _left_out(self, untested: int, unit: Unit) -> Iterator[str]:
        """Yield sentences on rows that are left out."""
        for role, ids in self.unknown.items():
            if len(ids):
                noun = unit if role == "user" else role
                yield (
                    f"pool {self.name}: {count_text(len(ids), noun)} left out that the data does not have, such as "
                    f"{_examples(ids, 1)}"
                )
        if twice := self.n_pairs - len(self.pair):
            yield f"pool {self.name}: {twice:,} of {self.rows:,} rows left out that repeat a pair"
        if untested:
            left_out = "users who are not tested" if unit == "user" else f"{plural(unit)} that are not tested"
            yield f"pool {self.name}: {untested:,} of {self.rows:,} rows left out of {left_out}"

    def _sizes(self, fold: Split, rows: Rows, tested: Flags) -> Iterator[str]:
        """Yield sentences on users without a pool, and on the sizes of the others."""
        users = int(tested.sum())
        without = tested & (rows.counts == 0)
        if without.any():
            first = fold.test.users[np.flatnonzero(without)[:1]]
            yield (
                f"pool {self.name}: {without.sum():,} of {users:,} test {plural(fold.unit)} have no pool, such as "
                f"{_examples(first)}: they get no list and score 0"
            )
        sizes = rows.counts[tested & ~without]
        yield (
            f"pool {self.name}: {sizes.min():,} to {sizes.max():,} items a {fold.unit} (median "
            f"{np.median(sizes):,.0f}) for {len(sizes):,} test {plural(fold.unit)}"
        )


def _examples(ids: npt.NDArray[np.generic], n: int = 3) -> str:
    return ", ".join(map(repr, ids[:n].tolist()))
