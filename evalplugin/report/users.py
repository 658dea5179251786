"""Two models user by user, or query by query: both scores, the difference, and facts about the user."""

from __future__ import annotations

from typing import Any

import numpy as np

from evalplugin.base.errors import DataError, did_you_mean
from evalplugin.base.libraries import pd
from evalplugin.comparison.compared import ComparedModel
from evalplugin.comparison.comparison import Comparison
from evalplugin.data.queries import positions_of, session_ids
from evalplugin.report.competition import competition_of


def users_frame(comparison: Comparison, a: str, b: str, metric: str | None = None) -> pd.DataFrame:
    """Return one row for each user or query, the largest losses of ``a`` first; see ``Comparisons.users``."""
    contest, first, second = comparison.contest, _scored(comparison, a), _scored(comparison, b)
    if first is second:
        raise DataError(f"{a!r} and {b!r} are one model: name two")
    assert first.scores is not None
    assert second.scores is not None
    name = contest.primary if metric is None else contest.spec(metric).name
    shared = [m for m in first.scores.metrics if m in second.scores.metrics]
    if name not in shared:
        raise DataError(
            f"{name!r} has no value for each {contest.units.noun}{did_you_mean(name, shared, noun='there are')}"
        )
    values, competition = contest.values([first, second], name), competition_of(contest)
    has_either = np.zeros(len(values), dtype=np.bool_)
    for row in (first, second):
        has_either[contest.rows[row.model]] = True
    units, values = contest.units.only(has_either), values[has_either]
    difference = values[:, 0] - values[:, 1]
    # Undefined differences are last, equal ones in the order of users.
    order = np.argsort(difference * (contest.spec(name).direction or 1), kind="stable")
    users, values, difference = units.ids[order], values[order], difference[order]
    histories = None if competition is None else competition.histories
    lengths = np.full(len(users), np.nan) if histories is None else histories.of(users)
    of_sessions = competition is not None and units.noun == "query"
    columns: dict[str, Any] = {
        units.noun if competition is None else "user": users,
        **({"session": session_ids(users), "position": positions_of(users)} if of_sessions else {}),
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


def _scored(comparison: Comparison, name: str) -> ComparedModel:
    """Return a model by its name, or by the id of its run.

    Raises:
        DataError: There is none, or it failed.
    """
    contest, models = comparison.contest, comparison.models
    row = next((m for m in models if name in (m.model, m.run_id)), None)
    if row is None:
        near = did_you_mean(name, [row.model for row in models if row.scores is not None], noun="there are")
        raise DataError(f"no model is named {name!r} on {contest.place}{near}")
    if row.scores is None:
        raise DataError(f"{name!r} failed, so it has no scores: {row.error}")
    return row
