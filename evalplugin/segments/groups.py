"""Groups of values, with readable labels."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Codes, Flags, Floats, Ints

_MOST_DECIMALS = 6


@dataclass(frozen=True, eq=False)
class Groups:
    """Users in groups: ``group`` int32 (U,) indexes ``labels``, -1 where a user is in no group."""

    labels: tuple[str, ...]  # in display order
    group: Codes

    def adding(self, label: str, members: Flags, *, first: bool = False) -> Groups:
        """Return the groups with some users, bool (U,), moved into the group ``label``.

        A missing group is added, as the last one or the ``first``, unless it would be empty.
        """
        if not members.any():
            return self
        labels, group = self.labels, self.group
        if label not in labels:
            labels = (label, *labels) if first else (*labels, label)
            group = group + np.int32(first) * (group >= 0)
        return Groups(labels, np.where(members, labels.index(label), group).astype(np.int32))


def by_quantile(values: npt.NDArray[np.floating], n: int) -> Groups:
    """Return at most ``n`` groups of about the same size, from low values (U,) to high ones; NaN is in no group.

    Equal values stay together: a value belongs to the group of its middle user, so that many equal users make fewer
    groups. Labels are the lowest and the highest value of the group, such as ``1-18``.
    """
    distinct, position, counts = _distinct(values)
    total = int(counts.sum())
    # Twice the rank of each value's middle user, in whole numbers.
    middle = 2 * np.cumsum(counts) - counts
    numbers, group_of = np.unique(n * middle // max(2 * total, 1), return_inverse=True)
    low = [distinct[group_of == g][0] for g in range(len(numbers))]
    high = [distinct[group_of == g][-1] for g in range(len(numbers))]
    texts = _texts(low + high)
    labels = tuple(
        first if first == last else f"{first}{' to ' if first.startswith('-') else '-'}{last}"
        for first, last in zip(texts[: len(low)], texts[len(low) :], strict=True)
    )
    return Groups(labels, _group_at(group_of, position))


def by_number(values: npt.NDArray[np.floating]) -> Groups:
    """Return one group for each number, ascending; NaN is in no group."""
    distinct, position, _ = _distinct(values)
    return Groups(tuple(_texts(distinct.tolist())), _group_at(np.arange(len(distinct)), position))


def by_text(values: npt.NDArray[np.object_], most: int) -> Groups:
    """Return one group for each text, the largest first, ties in alphabetical order; None is in no group.

    Beyond ``most`` texts the rest is one group, such as ``12 other values``.
    """
    counts = Counter(value for value in values.tolist() if value is not None)
    texts = sorted(counts, key=lambda text: (-counts[text], text))
    rest = len(texts) - most
    number = {text: min(position, most) for position, text in enumerate(texts)}
    labels = [*texts[:most], *([f"{rest} other value{'s' * (rest > 1)}"] if rest > 0 else [])]
    group = np.array([number.get(value, -1) for value in values.tolist()], dtype=np.int32)
    return Groups(tuple(labels), group)


def _distinct(values: npt.NDArray[np.floating]) -> tuple[Floats, Ints, Ints]:
    """Return the distinct numbers, each user's index among them (-1 for NaN), and the number of users of each."""
    values = np.asarray(values, dtype=np.float64) + 0.0  # no -0
    defined = ~np.isnan(values)
    distinct, inverse, counts = np.unique(values[defined], return_inverse=True, return_counts=True)
    position = np.full(len(values), -1, dtype=np.int64)
    position[defined] = inverse
    return distinct, position, counts


def _group_at(group_of: npt.NDArray[np.integer], position: Ints) -> Codes:
    return np.append(group_of, -1)[position].astype(np.int32)


def _texts(numbers: list[float]) -> list[str]:
    """Return numbers with the fewest decimals that distinguish them."""
    for decimals in range(_MOST_DECIMALS + 1):
        texts = [f"{number:z.{decimals}f}" for number in numbers]
        if len(set(texts)) == len(set(numbers)):
            return texts
    return [repr(number) for number in numbers]
