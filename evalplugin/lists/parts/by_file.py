"""Lists that are partitioned by user already: each file is a part, and nothing is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

import numpy as np

from evalplugin.base.errors import DataError
from evalplugin.data.tables import ids_of
from evalplugin.data.vocabulary import check_kinds
from evalplugin.lists.columns import ListInput, PairColumns, Role
from evalplugin.lists.parts.row_groups import RowGroup
from evalplugin.lists.parts.work import Part, PartWork, anywhere
from evalplugin.metrics.blocks import raw_text
from evalplugin.metrics.states import ScorerState

__all__ = ["check_one_file_each", "parts_of_files", "rest_of_truth"]


def parts_of_files(work: PartWork, groups: Mapping[Role, Sequence[RowGroup]]) -> tuple[list[Part], PartWork]:
    """Return a part for each file of the lists.

    Where the truth has a file of the same name for each, that is the truth of the file's users. Otherwise the truth is
    in memory, and each part takes that of its users.
    """
    by_file = {
        role: {
            position: tuple(group for group in of_role if group.file == position)
            for position in range(len(work.files[role].files))
        }
        for role, of_role in groups.items()
    }
    names = {role: [_name(str(file)) for file in work.files[role].files] for role in groups}
    if len(names["lists"]) > 1 and sorted(names["lists"]) == sorted(set(names["truth"])):
        place = {name: position for position, name in enumerate(names["truth"])}
        return [
            Part(by_file["lists"][position], by_file["truth"][place[name]])
            for position, name in enumerate(names["lists"])
        ], work
    truth = PairColumns.read(work.files["truth"].read(work.names["truth"]), "truth", work.request.columns)
    parts = [Part(some, None) for some in by_file["lists"].values()]
    return parts, replace(work, truth=truth._replace(table=anywhere(truth)))


def check_one_file_each(work: PartWork, states: Sequence[tuple[int, ScorerState]]) -> None:
    """Refuse a user who is in two of the files.

    Raises:
        DataError: Names the user and both files.
    """
    users = [(number, part.users) for number, state in states for part in state.values]
    if not users:
        return
    check_kinds("user", **{work.files["lists"].files[n].name: ids_of(known) for n, known in users})
    every = np.concatenate([known for _, known in users])
    part = np.repeat([number for number, _ in users], [len(known) for _, known in users])
    order = np.argsort(every, kind="stable")
    twice = np.flatnonzero(every[order][1:] == every[order][:-1])
    if len(twice):
        first, second = order[twice[0]], order[twice[0] + 1]
        one, other = (str(work.files["lists"].files[int(part[row])]) for row in (first, second))
        raise DataError(
            f"user {raw_text(every[first])} is in {one} and in {other} (or in the truth of these files), but files "
            f"that are partitioned by user have all rows of a user in one of them; without --partitioned "
            f"(partitioned=True), rows are brought together by user"
        )


def rest_of_truth(work: PartWork, states: Sequence[tuple[int, ScorerState]]) -> list[tuple[int, ScorerState]]:
    """Return the state of the users of the shared truth who are in no file of the lists."""
    if work.truth is None:
        return []
    known = [part.users for _, state in states for part in state.values]
    listed = work.truth
    if known:
        users = ids_of(np.concatenate(known))
        listed = work.truth_of(work.truth._replace(user=users), others=True)
    if not len(listed.user):
        return []
    number = len(work.files["lists"].files)
    nothing = work.rows("lists", (), Part((), None))
    return [(number, work.score(ListInput(nothing, listed, None)))]


def _name(file: str) -> str:
    return PurePath(file).name
