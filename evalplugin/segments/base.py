"""Segments: protocol, registry, and the division of test users into groups."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Codes, Floats, described, search
from evalplugin.base.errors import DataError, PluginError
from evalplugin.base.units import noun_of
from evalplugin.components.registry import Component, Registry, call_component
from evalplugin.data import LoadContext, Split
from evalplugin.data.queries import Unit
from evalplugin.segments.groups import Groups


@dataclass(frozen=True, eq=False)
class Segmentation:
    """Test users divided into groups by one segment.

    ``users`` (U,) raw ids, sorted; ``group`` int32 (U,) indexes ``labels``, -1 where a user is in no group.
    """

    name: str
    labels: tuple[str, ...]  # in display order
    users: npt.NDArray[np.generic]
    group: Codes
    from_truth: bool = False  # made from held-out items, which are unknown before: no group has a winner

    __repr__ = described

    @cached_property
    def digest(self) -> str:
        """A hash of name, labels and groups (the ids are the test data's): 32 hexadecimal digits."""
        content = hashlib.sha256(json.dumps([self.name, self.labels]).encode())
        content.update(np.ascontiguousarray(self.group).data)
        return content.hexdigest()[:32]

    def of(self, users: npt.NDArray[np.generic]) -> Codes:
        """Return the group of each user, by raw id (V,): int32 (V,), -1 for none."""
        if np.array_equal(self.users, users):  # much faster than a search
            return self.group
        position, is_known = search(self.users, users)
        return np.where(is_known, np.append(self.group, np.int32(-1))[position], np.int32(-1))

    def by_label(self, users: npt.NDArray[np.generic], values: Floats) -> dict[str, Floats]:
        """Return the defined values (V,) of users (V,) by the label of their group, in the order of the labels."""
        group = np.where(np.isnan(values), np.int32(-1), self.of(users))
        return {label: values[group == number] for number, label in enumerate(self.labels)}


class Segmenter(Component):
    """Divider of test users into groups by a value each: a dataclass whose fields are its parameters.

    A user is measured on the first fold that tests the user, and all users are then divided together.

    Attributes:
        from_truth: Whether users are divided by their held-out items: no winner is named in such groups.
        unit: ``query``: queries are divided, as the split ``next_item`` makes them.
    """

    from_truth: ClassVar[bool] = False
    unit: ClassVar[Unit] = "user"

    def measure(self, fold: Split, users: Codes, context: LoadContext) -> npt.NDArray[np.generic]:
        """Return the values that users are divided by, one a user: (len(users),).

        ``users`` are codes of test users, ascending. A user's value must not depend on the others.

        Raises:
            DataError: Required data is missing or breaks a rule.
        """
        raise NotImplementedError

    def divide(self, values: npt.NDArray[Any]) -> Groups:
        """Return the groups of all test users, given the value that ``measure`` returned for each.

        Equal values are in one group; their order does not matter.
        """
        raise NotImplementedError


SEGMENTS: Registry[Segmenter] = Registry(
    "segment", "measure(fold, users, context)", "divide(values)", base=Segmenter
)


segment = SEGMENTS.register  # a decorator of dataclasses


def segmentation(
    name: str, segmenter: Segmenter, folds: Sequence[Split], context: LoadContext
) -> Segmentation:
    """Return the test users of all folds in groups, each measured on the first fold that tests the user.

    Groups without users are left out.

    Args:
        name: Name of the segment.
        segmenter: The segment.
        folds: All folds of a split.
        context: Locations of files.

    Raises:
        DataError: Data that the segment needs is missing or breaks a rule.
        PluginError: The segment did not return one value and one group for each user.
    """
    if segmenter.unit not in ("user", folds[0].unit):
        raise DataError(
            f"segment {name!r}: divides queries, such as those of the split next_item; here are users"
        )
    vocabulary = folds[0].test.users
    known = np.zeros(len(vocabulary), dtype=np.bool_)
    users, values = [], []
    for fold in folds:
        tested = np.bincount(fold.test.user, minlength=len(vocabulary)) > 0
        new = np.flatnonzero(tested & ~known).astype(np.int32)
        known |= tested
        if not len(new):
            continue
        try:
            measured = np.asarray(call_component(f"segment {name}", segmenter.measure, fold, new, context))
        except DataError as error:
            raise DataError(f"segment {name!r}: {error}") from None
        if measured.shape != new.shape:
            raise PluginError(
                f"segment {name!r}: measure must return one value a user, {new.shape}, not {measured.shape}"
            )
        users.append(new)
        values.append(measured)
    in_order = np.concatenate(values)[np.argsort(np.concatenate(users))]
    groups = call_component(f"segment {name}", segmenter.divide, in_order)
    if problem := _problem_of(groups, int(known.sum())):
        raise PluginError(f"segment {name!r}: {problem}")
    present = np.unique(groups.group[groups.group >= 0])
    group = np.where(groups.group < 0, -1, np.searchsorted(present, groups.group)).astype(np.int32)
    labels = tuple(groups.labels[number] for number in present)
    return Segmentation(name, labels, vocabulary[known], group, segmenter.from_truth)


def clustering(column: str, clusters: npt.NDArray[Any], users: npt.NDArray[np.generic]) -> Segmentation:
    """Return users in clusters of values that depend on each other.

    Args:
        column: Name of the column of the clusters' ids.
        clusters: The text in it for each user (U,).
        users: Raw ids (U,), ascending.
    """
    labels, group = np.unique(clusters.astype(str), return_inverse=True)
    return Segmentation(noun_of(column), tuple(labels.tolist()), users, group.astype(np.int32))


def clustering_of(folds: Sequence[Split]) -> Segmentation | None:
    """Return the test users of all folds in the clusters that the split names; None: it names none."""
    if (clusters := folds[0].clusters) is None:
        return None
    tested = np.bincount(np.concatenate([fold.test.user for fold in folds]), minlength=len(clusters.ids)) > 0
    return clustering(clusters.column, clusters.ids[tested], folds[0].test.users[tested])


def _problem_of(groups: Groups, n_users: int) -> str | None:
    """Return the rule that groups of users break, if any."""
    labels, group = groups.labels, np.asarray(groups.group)
    if group.shape != (n_users,) or group.dtype.kind != "i":
        return f"divide must return one integer a user, ({n_users},), not {group.dtype} {group.shape}"
    if len(set(labels)) < len(labels) or not all(labels):
        return f"every group needs a label of its own, not {', '.join(map(repr, labels))}"
    outside = group[(group < -1) | (group >= len(labels))]
    if len(outside):
        return f"a group is a number from -1 to {len(labels) - 1}, not {int(outside[0])}"
    return None
