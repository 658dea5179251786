"""Two models user by user, or query by query: both scores, the difference, and what is known of the user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evalplugin.base.errors import DataError, did_you_mean
from evalplugin.base.libraries import pd
from evalplugin.comparison.compared import ComparedModel, aligned
from evalplugin.comparison.contest import Contest
from evalplugin.data.queries import positions_of, session_ids


def users_frame(
    contest: Contest, models: Sequence[ComparedModel], a: str, b: str, metric: str | None = None
) -> pd.DataFrame:
    """Return one row for each user or query, the largest losses of ``a`` first; see ``Comparison.users``."""
    first, second = _scored(contest, models, a), _scored(contest, models, b)
    if first is second:
        raise DataError(f"{a!r} and {b!r} are one model: name two")
    assert first.scores is not None
    assert second.scores is not None
    name = contest.primary if metric is None else contest.spec(metric).name
    shared = [m for m in first.scores.metrics if m in second.scores.metrics]
    if name not in shared:
        raise DataError(
            f"{name!r} has no value for each {contest.unit}{did_you_mean(name, shared, noun='there are')}"
        )
    users, values, _ = aligned([first.scores, second.scores], name)
    difference = values[:, 0] - values[:, 1]
    # Undefined differences are last, equal ones in the order of users.
    order = np.argsort(difference * (contest.spec(name).direction or 1), kind="stable")
    users, values, difference = users[order], values[order], difference[order]
    lengths = np.full(len(users), np.nan) if contest.histories is None else contest.histories.of(users)
    columns: dict[str, Any] = {
        contest.unit if contest.is_table else "user": users,
        **({"session": session_ids(users), "position": positions_of(users)} if contest.of_sessions else {}),
        "metric": name,
        "model": first.model,
        "score": values[:, 0],
        "against": second.model,
        "score_against": values[:, 1],
        "difference": difference,
        "history": pd.Series(lengths).astype("Int64"),
    }
    for segment in contest.segments:
        labels = np.array([*segment.labels, None], dtype=object)
        columns[f"segment_{segment.name}"] = labels[segment.of(users)]
    return pd.DataFrame(columns)


def _scored(contest: Contest, models: Sequence[ComparedModel], name: str) -> ComparedModel:
    """Return a model by its name, or by the id of its run.

    Raises:
        DataError: There is none, or it failed.
    """
    row = next((row for row in models if name in (row.model, row.run_id)), None)
    if row is None:
        near = did_you_mean(name, [row.model for row in models if row.scores is not None], noun="there are")
        raise DataError(f"no model is named {name!r} on {contest.place}{near}")
    if row.scores is None:
        raise DataError(f"{name!r} failed, so it has no scores: {row.error}")
    return row
