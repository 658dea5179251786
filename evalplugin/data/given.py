"""The split ``given``: data that comes as train, validation and test parts, or in folds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from evalplugin.base.arrays import Flags, search
from evalplugin.base.errors import DataError
from evalplugin.base.libraries import np
from evalplugin.base.units import count_text
from evalplugin.data.base import Split, pair_text, split
from evalplugin.data.interactions import Interactions
from evalplugin.data.splits import ColdRule, held_out

ROLES = ("train", "validation", "test")
_ROLE_OF = {**{role: role for role in ROLES}, "valid": "validation", "val": "validation", "dev": "validation"}


class _Fold(NamedTuple):
    """Names of the parts of a fold."""

    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]


@split("given")
@dataclass(frozen=True)
class GivenSplit:
    """The split that the data comes with: files of train and test data, or a column that names the part or the fold.

    Parts are called train, test and, if there is one, validation (also valid, val or dev). A column with other values
    names folds: each is the truth once, and the others are its train data. Models are tuned on the validation part, if
    there is one, and fitted on it and on the train part for the test.

    Pairs that the test part shares with what models are fitted on are counted and stay in the truth; lists of
    ``candidates: unseen`` can never have them, so that these are refused.
    """

    uses_parts: ClassVar[bool] = True

    overlap: Annotated[
        Literal["keep", "drop"],
        Field(
            description="test pairs that the train data has too: keep them in the truth, or drop them; both are counted"
        ),
    ] = "keep"
    fit_on_validation: Annotated[
        bool, Field(description="whether models that are tested learn from the validation part too")
    ] = True
    cold: ColdRule = "keep"

    def split(self, data: Interactions, rng: np.random.Generator) -> list[Split]:
        """Return one fold for each that the data comes with."""
        if not data.parts:
            raise DataError(
                "split given needs data that comes in parts, and this comes in one piece: give path as {train: FILE, "
                "test: FILE}, or name the column of the part or the fold by part"
            )
        folds = folds_of(data.parts)
        return [self._split(data, fold, number) for number, fold in enumerate(folds)]

    def newest(self, data: Interactions) -> Interactions:
        """Return what a model learns from that is fitted to be used from now on: all parts."""
        return in_one_piece(data)

    def _split(self, data: Interactions, fold: _Fold, number: int) -> Split:
        train, validation, test = (_rows_of(data, names) for names in fold)
        inner = self._fold(data, train, validation, number, "validation") if fold.validation else None
        fitted = train | validation if self.fit_on_validation else train
        return replace(self._fold(data, fitted, test, number, "test"), validation=inner)

    def _fold(self, data: Interactions, train: Flags, test: Flags, number: int, name: str) -> Split:
        """Return the fold of two groups of rows; ``name`` is of the second one."""
        place = f"fold {number + 1}: " if number else ""
        for rows, part in ((train, "train"), (test, name)):
            if not rows.any():
                raise DataError(f"split given: {place}the {part} part has no rows")
        fold = held_out(data, test, self.cold, train=train, fold=number, repeats=True)
        notes = list(fold.notes)
        shared = fold.shared_pairs(fold.train)
        if len(shared) and not data.events:
            overlap = (
                f"{len(shared):,} of {len(fold.test):,} {name} pairs are in the train data too, the first is "
                f"{pair_text(data, shared[0])}"
            )
            if self.overlap == "drop":
                kept = ~search(shared, fold.test.user.astype(np.int64) * data.n_items + fold.test.item)[1]
                if not kept.any():
                    raise DataError(f"split given: {place}{overlap}: nothing is left to test")
                fold = replace(fold, test=fold.test.select(kept))
                overlap += "; they are left out of the truth"
            notes.append(overlap)
        counts = fold.counts
        if counts["cold_users"]:
            notes.append(
                f"{counts['cold_users']:,} of {counts['test_users']:,} {name} users have no train data"
            )
        if cold := counts["test_interactions_on_cold_items"]:
            notes.append(
                f"{cold:,} of {counts['test_interactions']:,} {name} interactions are with {counts['cold_items']:,} "
                f"items without train data"
            )
        return replace(fold, notes=tuple(notes))


def folds_of(parts: Sequence[str]) -> list[_Fold]:
    """Return the folds that names of parts stand for.

    Raises:
        DataError: They stand for none.
    """
    found = {name: _role_and_fold(name) for name in parts}
    named = [name for name, role in found.items() if role is not None]
    shown = ", ".join(parts[:10]) + ", ..." * (len(parts) > 10)
    if not named:
        if len(parts) < 2:
            raise DataError(
                f"split given: all rows are in one part or fold ({shown}); at least two are needed"
            )
        return [_Fold(tuple(p for p in parts if p != test), (), (test,)) for test in parts]
    if odd := [name for name in parts if name not in named]:
        raise DataError(
            f"split given: the parts are {shown}; {odd[0]!r} is none of train, validation and test: rename it, or "
            f"leave its rows out by a filter"
        )
    folds = []
    for number in sorted({fold for _, fold in filter(None, found.values())}, key=_natural):
        names = {role: tuple(n for n in parts if found[n] == (role, number)) for role in ROLES}
        for role in ("train", "test"):
            if not names[role]:
                of = f" of fold {number}" if number else ""
                raise DataError(
                    f"split given: there is no {role} part{of}, or it has no rows; the parts are {shown}"
                )
        folds.append(_Fold(**names))
    return folds


def part_name(role: str, fold: str = "") -> str:
    """Return the name of a part, of a fold if there are several."""
    return f"{role} {fold}" if fold else role


def in_one_piece(data: Interactions) -> Interactions:
    """Return data that comes in parts as one table: the last row of a pair in several parts, but all events."""
    if data.part is None:
        return data
    folds = folds_of(data.parts)
    rows = _rows_of(data, [name for part in folds[0] for name in part])
    whole = data.select(rows)
    note = f"the {count_text(len(data.parts), 'part')} of the data are joined: {', '.join(data.parts[:10])}"
    return (replace(whole, part=None, parts=()) if data.events else whole.merged()).noting(note)


def _role_and_fold(name: str) -> tuple[str, str] | None:
    """Return the role of a part and the name of its fold (empty without one); None: it is no role."""
    word, _, fold = name.partition(" ")
    role = _ROLE_OF.get(word.casefold())
    return None if role is None else (role, fold)


def _natural(text: str) -> list[Any]:
    """Return a sort key by which 10 comes behind 9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", text) if part]


def _rows_of(data: Interactions, names: Sequence[str]) -> Flags:
    assert data.part is not None
    return np.array([name in names for name in data.parts])[data.part]
