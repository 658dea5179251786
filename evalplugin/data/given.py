"""The split ``given``: data that comes as train, validation and test parts, or in folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import Flags, search
from evalplugin.base.errors import DataError
from evalplugin.data.base import Split, Splitter, pair_text, split
from evalplugin.data.interactions import Interactions
from evalplugin.data.parts import FoldParts, folds_of
from evalplugin.data.splits import ColdRule, held_out


@split("given")
@dataclass(frozen=True)
class GivenSplit(Splitter):
    """The split that the data comes with: files of train and test data, or a column that names the part or the fold.

    Parts are train, test and perhaps validation (also valid, val or dev), on which models are tuned. A column with
    other values names folds: each is the truth once, the others its train data.

    ``candidates: unseen`` is refused where the test part shares pairs with what models are fitted on.
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
                "split given needs data that comes in parts, and this comes in one piece: name the files by path: "
                "{train: FILE, test: FILE}, or the column of the part or the fold by part"
            )
        folds = folds_of(data.parts)
        made = [self._split(data, fold, number) for number, fold in enumerate(folds)]
        if len(folds) > 1:
            made = [
                replace(split, notes=(f"the test part is {', '.join(fold.test)}", *split.notes))
                for split, fold in zip(made, folds, strict=True)
            ]
        return made

    def _split(self, data: Interactions, fold: FoldParts, number: int) -> Split:
        train, validation, test = (_rows_of(data, names) for names in fold)
        inner = self._fold(data, train, validation, number, "validation") if fold.validation else None
        fitted = train | validation if self.fit_on_validation else train
        outer = self._fold(data, fitted, test, number, "test")
        if inner is None:
            return outer
        notes = [*inner.notes, *outer.notes]
        if not self.fit_on_validation:
            notes.append(
                f"fit_on_validation is false: {inner.counts['test_interactions']:,} validation interactions are for "
                f"tuning alone"
            )
        return replace(outer, validation=inner, notes=tuple(notes))

    def _fold(self, data: Interactions, train: Flags, test: Flags, number: int, name: str) -> Split:
        """Return the fold of two groups of rows; ``name`` is of the second one."""
        place = f"split given, fold {number + 1}"
        for rows, part in ((train, "train"), (test, name)):
            if not rows.any():
                raise DataError(f"{place}: the {part} part has no rows; does a filter leave all of them out?")
        fold = held_out(data, test, self.cold, train=train, fold=number)
        notes = [note.replace("test interactions", f"{name} interactions") for note in fold.notes]
        if len(shared := fold.shared_pairs(fold.train)):
            overlap = (
                f"{len(shared):,} of {len(fold.test):,} {name} pairs are in the train data too, the first is "
                f"{pair_text(data, shared[0])}"
            )
            if self.overlap == "drop":
                kept = ~search(shared, fold.test.user.astype(np.int64) * data.n_items + fold.test.item)[1]
                if not kept.any():
                    raise DataError(f"{place}: {overlap}: nothing is left to test", parameter="overlap")
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


def in_one_piece(data: Interactions) -> Interactions:
    """Return data that comes in parts as one table: the last row of a pair in several parts, but all events.

    Of folds that have train and test parts of their own, each is the whole data: those of the first one are joined.
    """
    if data.part is None:
        return data
    names = folds_of(data.parts)[0].all
    rows = data.select(_rows_of(data, names))
    whole = replace(rows, part=None, parts=()) if data.events else rows.merged()
    several = len(rows) - len(whole)
    return whole.noting(
        f"the parts {', '.join(names[:10])}{', ...' * (len(names) > 10)} of the data are joined"
        + f"; {several:,} pairs of later parts take the place of earlier ones" * bool(several)
    )


def _rows_of(data: Interactions, names: Sequence[str]) -> Flags:
    assert data.part is not None
    return np.array([name in names for name in data.parts])[data.part]
