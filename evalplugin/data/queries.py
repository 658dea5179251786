"""Ids of queries, which name a session and the number of its events so far: ``SESSION:EVENTS``."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Codes, Ints
from evalplugin.base.errors import DataError
from evalplugin.base.libraries import pa, pc
from evalplugin.data.tables import Ids, null_texts

# The noun of what has a score: "user", "query" (its id names a session), or what a table of scores calls it.
Unit: TypeAlias = str

SEPARATOR = ":"
QUERY_IDS = (
    "ids of queries are texts SESSION:NUMBER, such as 1042:3 for the query after 3 events of session 1042"
)


class Clusters(NamedTuple):
    """Clusters of units whose scores depend on each other, such as the queries of all sessions of a user."""

    column: str  # whose values are ids of clusters
    # (n_users,) text in it for each unit of the vocabulary; None for train sessions
    ids: npt.NDArray[np.object_]


def query_ids(sessions: npt.NDArray[np.generic], known: Ints) -> npt.NDArray[np.object_]:
    """Return the ids of queries, such as ``1042:3``: str as object (Q,).

    Args:
        sessions: Raw id of each query's session (Q,).
        known: Number of events of the session before the query (Q,).
    """
    texts = sessions.astype(str).tolist()
    ids = [f"{session}{SEPARATOR}{events}" for session, events in zip(texts, known.tolist(), strict=True)]
    return np.array(ids, dtype=object)


def sessions_of(queries: npt.NDArray[np.generic]) -> Codes:
    """Return a code for the session of each query, by its id (Q,): int32 (Q,), queries of one session alike."""
    codes: Codes = _parts(queries)[0].dictionary_encode().indices.to_numpy()
    return codes


def independent_unit(unit: Unit) -> str:
    """Return the noun of what is independent: users, or the sessions of queries."""
    return Sessions.name if unit == "query" else unit


class Sessions:
    """The sessions of queries as clusters, for which the ids of queries suffice."""

    name = "session"

    def of(self, ids: npt.NDArray[np.generic]) -> Codes:
        """Return the code of the session of each query, as of ``sessions_of``."""
        return sessions_of(ids)


def session_ids(queries: npt.NDArray[np.generic]) -> npt.NDArray[np.object_]:
    """Return the id of each query's session, by its id (Q,): str as object (Q,)."""
    ids: npt.NDArray[np.object_] = _parts(queries)[0].to_numpy(zero_copy_only=False)
    return ids


def positions_of(queries: npt.NDArray[np.generic]) -> Ints:
    """Return the number of events before each query, by its id (Q,): int64 (Q,)."""
    known: Ints = _parts(queries)[1].cast(pa.int64()).to_numpy()
    return known


def check_query_ids(ids: npt.NDArray[np.generic]) -> None:
    """Check that ids name the session of a query.

    Raises:
        DataError: An id that does not.
    """
    if (wrong := first_other_id(ids)) is not None:
        raise DataError(f"query: {wrong!r} is not the id of a query: {QUERY_IDS}")


def first_other_id(ids: npt.NDArray[np.generic]) -> Any:
    """Return the first id that is not one of a query, or has a session such as ``nan`` among numbers; else None."""
    if ids.dtype != object:
        return ids[:1].tolist()[0] if len(ids) else None
    texts = pa.array(ids, pa.large_string())
    wrong = pc.invert(pc.match_substring_regex(texts, rf".{SEPARATOR}\d{{1,18}}$"))
    first = pc.index(wrong, True).as_py()
    if first < 0:
        rows, among_numbers = null_texts(Ids("text", _parts(ids)[0]))
        first = int(rows[0]) if among_numbers else first
    return None if first < 0 else texts[first].as_py()


def _parts(queries: npt.NDArray[np.generic]) -> tuple[pa.Array, pa.Array]:
    """Return the texts before and behind the last separator of each id."""
    ids = pa.array(queries, pa.large_string())
    parts = pc.split_pattern(ids, SEPARATOR, max_splits=1, reverse=True)
    texts = parts.flatten()
    return texts[::2], texts[1::2]
