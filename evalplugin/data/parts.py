"""Names of the parts that data comes in: train, validation and test, or folds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from evalplugin.base.errors import DataError, did_you_mean

PART = "(part)"  # the column of the part of each row, where files are the parts
ROLES = ("train", "validation", "test")
_NUMBERED = re.compile(r"[^\W\d]*[ -]?\d+")  # the name of a fold, such as 3, fold3 or fold_3; no date
_ROLE_OF = {**{role: role for role in ROLES}, "valid": "validation", "val": "validation", "dev": "validation"}


class FoldParts(NamedTuple):
    """Names of the parts of a fold."""

    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        """The names of all parts."""
        return (*self.train, *self.validation, *self.test)


def folds_of(parts: Sequence[str]) -> list[FoldParts]:
    """Return the folds that names of parts stand for.

    Names are train, test and validation, of a fold with its name behind a space; or numbers of folds.

    Raises:
        DataError: They stand for none.
    """
    parts = sorted(parts, key=_natural)
    shown = ", ".join(parts[:10]) + ", ..." * (len(parts) > 10)
    roles = {name: _role_and_fold(name) for name in parts}
    if not any(roles.values()) and all(_NUMBERED.fullmatch(name) for name in parts):
        if len(parts) < 2:
            raise DataError(f"all rows are of one fold ({shown}), and at least two are needed")
        return [FoldParts(tuple(p for p in parts if p != test), (), (test,)) for test in parts]
    for name, role in roles.items():
        if role is None:
            raise DataError(
                f"{name!r} is not the name of a part{did_you_mean(name.partition(' ')[0], list(_ROLE_OF))}; the "
                f"parts here are {shown}: parts are called train, test and validation (or valid, val, dev), or all "
                f"have the number of a fold"
            )
    folds = []
    for number in sorted({role[1] for role in roles.values() if role}, key=_natural):
        fold = FoldParts(*(tuple(n for n in parts if roles[n] == (role, number)) for role in ROLES))
        for part, names in (("train", fold.train), ("test", fold.test)):
            if not names:
                of = f" of fold {number}" if number else ""
                raise DataError(f"there is no {part} part{of}, or it has no rows; the parts are {shown}")
        folds.append(fold)
    return folds


def part_name(role: str, fold: str = "") -> str:
    """Return the name of a part, of a fold if there are several."""
    return f"{role} {fold}" if fold else role


def _role_and_fold(name: str) -> tuple[str, str] | None:
    """Return the role of a part and the name of its fold (empty without one); None: it is no role."""
    word, _, fold = name.partition(" ")
    role = _ROLE_OF.get(word.casefold())
    return None if role is None else (role, fold)


def _natural(text: str) -> list[Any]:
    """Return a sort key by which 10 comes behind 9."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", text) if part]
