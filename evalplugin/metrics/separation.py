"""Metrics of the separation of relevant items from others: bpref, AUC, interpolated precision."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import Floats
from evalplugin.metrics.base import metric
from evalplugin.metrics.context import ScoringContext

RECALL_PERCENT = tuple(range(0, 101, 10))


@metric("bpref", higher_is_better=True, bounds=(0.0, 1.0))
def bpref(context: ScoringContext) -> Floats:
    """Preference of relevant items over items judged non-relevant; items that were not judged are ignored.

    bpref = sum over the hits of (1 - min(judged non-relevant items above it, R) / min(N, R)) / R, with R relevant and
    N judged non-relevant items. Judged is an item of the user's truth, non-relevant one with a rating below the
    threshold. It takes no k. Undefined (NaN) for a user without a relevant item. Range 0 to 1, higher is better.

    Source: Buckley and Voorhees, SIGIR 2004; with the divisor of trec_eval 8 and later.

    >>> from evalplugin.metrics import evaluate
    >>> truth = {"a": 0.0, "b": 1.0, "c": 1.0, "d": 0.0}
    >>> evaluate("bpref", lists=[["b", "x", "a", "c"]], truth=[truth])
    [0.75]
    """
    judged, relevant = context.matches, context.n_relevant
    so_far = np.cumsum(~judged.relevant)
    of_row = np.bincount(judged.row[~judged.relevant], minlength=context.n_users)
    above = so_far - (np.cumsum(of_row) - of_row)[judged.row]
    at_most = np.minimum(context.n_truth - relevant, relevant)
    share = np.minimum(above, relevant[judged.row]) / np.maximum(at_most, 1)[judged.row]
    preferred = context.total(judged, np.where(judged.relevant, 1 - share, 0.0), context.n)
    return context.undefined_without_relevant(preferred / np.maximum(relevant, 1))


@metric("auc", higher_is_better=True, bounds=(0.0, 1.0), needs=("catalogue",))
def auc(context: ScoringContext) -> Floats:
    """Probability that a relevant item is ranked above a non-relevant one.

    auc = pairs of a relevant and a listed non-relevant item in the right order / all such pairs. With a list of all
    candidates it is the area under the ROC curve. An unlisted relevant item ranks below every listed one, an unlisted
    non-relevant item is in no pair; a list of hits alone counts as if a non-relevant item followed. It takes no k.
    Undefined (NaN) for a user without a relevant item, and for one whose candidates (or catalogue, where they are
    unknown) are all relevant. Range 0 to 1, chance 0.5, higher is better.

    Source: Hanley and McNeil, Radiology 143, 1982.

    >>> from evalplugin.metrics import evaluate
    >>> evaluate("auc", lists=[[1, 2, 3, 4]] * 3, truth=[{3}, {1, 3}, {1, 9}])
    [0.3333333333333333, 0.75, 0.5]
    """
    hits, relevant = context.hits, context.n_relevant
    n_hits = np.bincount(hits.row, minlength=context.n_users)
    others = np.maximum(context.n_listed - n_hits, 1)
    below = others[hits.row] - (hits.rank - context.hit_number)
    ordered = context.total(hits, below.astype(np.float64), context.n)
    candidates = context.n_items if context.n_candidates is None else context.n_candidates
    share = ordered / (np.maximum(relevant, 1) * others)
    return context.undefined_without_relevant(
        np.where(context.n_relevant_in_pool < candidates, share, np.nan)
    )


@metric("precision_at_recall", higher_is_better=True, bounds=(0.0, 1.0))
def precision_at_recall(
    context: ScoringContext,
    *,
    level: Annotated[float, Field(ge=0, le=1, description="The recall to reach")] = 0.1,
) -> Floats:
    """The best precision at any rank that reaches a recall.

    precision_at_recall = max of precision@k over the k with recall@k >= level; 0 where the list does not reach the
    level. At level 0 every rank counts. It takes no k. trec_eval rounds, and can so read a level one hit earlier.
    Undefined (NaN) for a user without a relevant item. Range 0 to 1, higher is better.

    Source: Manning et al., Introduction to Information Retrieval, 2008, section 8.4 (interpolated precision; TREC's
    11 points are the levels 0, 0.1 ... 1).

    >>> from evalplugin.metrics import evaluate
    >>> lists, truth = [["x", "a", "b", "y"]], [{"a", "b", "c"}]
    >>> evaluate("precision_at_recall(level=0.5)", lists=lists, truth=truth) == [2 / 3]
    True
    """
    # A level such as 0.3 is not exact in binary: half a millionth of a hit is rounding.
    needed = np.ceil(level * context.n_relevant - 5e-7)
    hits = context.hits
    reached = context.hit_number >= needed[hits.row]
    best = np.zeros(context.n_users)
    np.maximum.at(best, hits.row[reached], (context.hit_number / hits.rank)[reached])
    return context.undefined_without_relevant(best)


def precision_recall_curve(context: ScoringContext) -> Floats:
    """Return each user's interpolated precision at ``RECALL_PERCENT``: float64 (B, 11), NaN where undefined."""
    hits, number = context.hits, context.hit_number
    best = np.zeros((context.n_users, len(RECALL_PERCENT)))
    highest = number * 10 // np.maximum(context.n_relevant, 1)[hits.row]  # the last level the hit reaches
    np.maximum.at(best, (hits.row, highest), number / hits.rank)
    best = np.maximum.accumulate(best[:, ::-1], axis=1)[:, ::-1]
    return np.where((context.n_relevant > 0)[:, None], best, np.nan)
