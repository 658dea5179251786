"""Scoring: metrics of lists and truth, block by block, into every user's scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Floats
from evalplugin.base.errors import DataError, PluginError
from evalplugin.components.registry import call_component
from evalplugin.metrics import Blocks, MetricSpec, ScoringContext, is_overall
from evalplugin.metrics.grouped_rows import Users
from evalplugin.metrics.moments import ExactSum
from evalplugin.metrics.scores import PerUserScores, Units
from evalplugin.metrics.separation import RECALL_PERCENT, precision_recall_curve
from evalplugin.metrics.states import Request, ScorerState, UserValues
from evalplugin.models.threads import thread_count

if TYPE_CHECKING:
    from evalplugin.data import Split

_MIN_BLOCKS, _MAX_THREADS = 4, 4  # fewer blocks are not worth several threads


def score_top_n(blocks: Blocks, metrics: Sequence[MetricSpec], curve_ks: Sequence[int] = ()) -> PerUserScores:
    """Return the scores of all users of ``Blocks.of``, by raw user id in the order of codes.

    A user with relevant truth but without a list scores 0; a user without relevant truth is undefined (NaN)
    for every ranking metric, whatever the list, so that all models are averaged over the same users. A cutoff
    beyond the lists' length counts the missing items as misses.

    Args:
        blocks: Lists and truth.
        metrics: The metrics, each once.
        curve_ks: The cutoffs of ``at_k``, computed for every metric of the list that takes k. Where there are
            any, so is ``pr_curve``.

    Raises:
        DataError: A list or a truth with an item twice, ratings that a metric does not allow, a metric named twice
            or in need of the train data.
    """
    return replace(score_part(blocks, metrics, curve_ks).scores(), units=Units(blocks.users))


def score_part(blocks: Blocks, metrics: Sequence[MetricSpec], curve_ks: Sequence[int] = ()) -> ScorerState:
    """Return the contribution of some users, by their codes, to the scores of ``score_top_n``.

    Merged states give the scores of all users, which ``with_ids`` completes.
    """
    attributes = {} if blocks.train is None else blocks.train.item_attributes
    check_request(
        metrics,
        blocks.train is not None,
        curve_ks,
        attributes,
        has_pool=blocks.pool is not None,
        has_log=blocks.supported is not None,
        has_scores=blocks.has_scores,
    )
    assert blocks.user is not None
    request = Request(tuple(metrics), blocks.n, blocks.n_items, tuple(curve_ks))
    return score_blocks(blocks, request, blocks.user)


def with_ids(scores: PerUserScores, split: Split) -> PerUserScores:
    """Return the scores of ``score_part`` with the raw ids of a split's units in place of codes."""
    return replace(scores, units=Units.of_lists(split.test.users[scores.users.astype(np.int64)], split.unit))


def score_blocks(blocks: Blocks, request: Request, users: npt.NDArray[np.generic]) -> ScorerState:
    """Return the contribution of the users of blocks to the scores; ``users`` (U,) are their raw ids or codes.

    Raises:
        DataError: As for ``score_top_n``; lists are shorter than a pool of which a policy may show any item.
    """
    if blocks.n_candidates is not None:
        check_pools(request.metrics, request.n, int(blocks.n_candidates.max(initial=0)))
    overall = {
        name: call_component(f"metric {name}", metric.start, request.n_items)
        for name, metric in request.overall.items()
    }
    values = np.full((len(request.per_user), len(blocks)), np.nan)
    columns = dict(zip(request.per_user, values, strict=True))
    sums = {name: ExactSum() for name in request.every if name not in overall and name not in columns}
    precision = [ExactSum() for _ in RECALL_PERCENT] if request.curve_ks else []
    updating = Lock()

    def scored(cut: Users) -> tuple[dict[str, Floats], Floats]:
        context = blocks.context(cut)
        of_block = {}
        for name, spec in request.every.items():
            k = request.n if spec.k is None else spec.k
            if is_overall(spec.metric):
                with updating:
                    call_component(f"metric {name}", spec.metric.update, overall[name], context, k)
            else:
                of_block[name] = _per_user(spec, context, k)
        return of_block, precision_recall_curve(context) if precision else np.empty((0, 0))

    cuts = blocks.cuts()
    # One thread for metrics of plugins, which may have a state or depend on the order of blocks.
    serial = len(cuts) < _MIN_BLOCKS or not all(spec.is_own for spec in request.every.values())
    threads = 1 if serial else min(_MAX_THREADS, thread_count())
    with ThreadPoolExecutor(threads) as pool:
        for cut, (of_block, curve) in zip(
            cuts, (pool.map if threads > 1 else map)(scored, cuts), strict=True
        ):
            for level, column in enumerate(curve.T):
                precision[level] += ExactSum.of(column)
            for name, column in of_block.items():
                if name in columns:
                    columns[name][cut] = column
                else:
                    sums[name] += ExactSum.of(column)
    return ScorerState(
        request, (UserValues(users, values),), overall=overall, sums=sums, precision=tuple(precision)
    )


def _per_user(spec: MetricSpec, context: ScoringContext, k: int) -> Floats:
    if "predictions" in spec.needs and context.predictions is None:
        return np.full(context.n_users, np.nan)
    values = np.asarray(call_component(f"metric {spec.name}", spec.of, context, k))
    if values.shape != (context.n_users,) or values.dtype != np.float64:
        raise PluginError(
            f"metric {spec.name} must return float64 ({context.n_users},), one value a user, "
            f"not {values.dtype} {values.shape}"
        )
    if (infinite := np.isinf(values)).any():
        raise PluginError(
            f"metric {spec.name} is infinite for {int(infinite.sum()):,} users, which no mean and no interval can be "
            f"taken of; allowed: finite values, and NaN where it is undefined"
        )
    return values


def check_request(
    metrics: Sequence[MetricSpec],
    has_train: bool,
    curve_ks: Sequence[int] = (),
    item_attributes: Mapping[str, npt.NDArray[np.generic]] | None = None,
    *,
    has_pool: bool = False,
    has_log: bool = False,
    has_scores: bool = True,
) -> None:
    """Check the requested metrics and cutoffs before any work.

    Args:
        metrics: The metrics.
        has_train: Whether there is train data.
        curve_ks: The cutoffs of curves.
        item_attributes: Attributes of the items of the train data; None: lists that were made elsewhere have none.
        has_pool: Whether lists were chosen from given candidates that are known.
        has_log: Whether the truth is a log of decisions, with positions and propensities.
        has_scores: Whether lists have a score, or a probability, beside each item.

    Raises:
        DataError: A metric is named twice or needs train data, a pool, a log or an attribute that is missing, or
            scores that lists lack, or a cutoff is below 1.
    """
    names = [spec.name for spec in metrics]
    for position, spec in enumerate(metrics):
        if spec.name in names[:position]:
            raise DataError(f"metric {spec.name} is requested twice")
        if "item_attributes" in spec.needs and item_attributes is None:
            raise DataError(
                f"metric {spec.name} needs attributes of the items, which lists that were made elsewhere do not have; "
                f"a bake-off reads them with its dataset"
            )
        if "pool" in spec.needs and not has_pool:
            raise DataError(
                f"metric {spec.name} needs the pool that lists were chosen from: recommend: {{candidates: given, path: "
                f"FILE}} in a bake-off, pool (--pool) in evalplugin score"
            )
        if "log" in spec.needs and not has_log:
            raise DataError(
                f"metric {spec.name} needs a log of what was shown, with positions and propensities: a dataset of type "
                f"impressions"
            )
        if {"log", "train"} <= {*spec.needs} and not has_train:
            raise DataError(
                f"metric {spec.name} needs an earlier log of decisions too, to learn which reward to expect: the train "
                f"part of a bake-off on impressions, train (--train) in evalplugin score; or take the estimator ips, "
                f"clipped, snips or rips"
            )
        if "train" in spec.needs and not has_train:
            raise DataError(f"metric {spec.name} needs the train data")
        if not has_scores and (wanted := {"scores", "probabilities"} & set(spec.needs)):
            raise DataError(
                f"metric {spec.name} needs the {wanted.pop()} of listed items, and these lists have ranks: give the "
                f"lists a column of them, or take policy=greedy"
            )
        try:
            spec.metric.check_attributes(item_attributes or {})
        except DataError as error:
            raise DataError(f"metric {spec.name}: {error}") from None
    for k in curve_ks:
        if k < 1:
            raise DataError(f"a curve's cutoffs start at 1, not at {k}")


def check_pools(metrics: Sequence[MetricSpec], n: int, largest: int) -> None:
    """Check that lists of length n are whole pools, of which the ``largest`` has so many items, where they must be.

    Raises:
        DataError: A policy may show any item of a pool, and lists are shorter.
    """
    for spec in metrics:
        # Items without a given probability have the probability 0.
        if spec.metric.reads_whole_list and "probabilities" not in spec.needs and n < largest:
            raise DataError(
                f"metric {spec.name} needs lists of whole pools, of which its policy may show any item: a pool has "
                f"{largest:,} items, and lists are {n:,} long; set recommend.n to {largest} (in evalplugin score, give "
                f"whole lists), name a smaller pool (candidates: given, or --pool), or take policy=greedy"
            )
