"""Scoring: metrics of lists and truth, block by block, into every user's scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Floats, Ints
from evalplugin.base.errors import DataError
from evalplugin.data.candidates import Candidates
from evalplugin.data.interactions import Interactions
from evalplugin.metrics import (
    RECALL_PERCENT,
    Blocks,
    MetricSpec,
    ScoringContext,
    UserMetric,
    is_overall,
    precision_recall_curve,
)
from evalplugin.metrics.grouped_rows import Users
from evalplugin.metrics.moments import ExactSum
from evalplugin.metrics.scores import PerUserScores
from evalplugin.metrics.states import Request, ScorerState, UserValues
from evalplugin.models.selection import TopN
from evalplugin.models.threads import thread_count

__all__ = ["Scorer", "check_request", "score_blocks", "score_part", "score_top_n", "with_ids"]

_PR_CURVE = "pr_curve/"  # no metric can have this name
_MIN_BLOCKS, _MAX_THREADS = 4, 4  # fewer blocks are not worth several threads


def score_top_n(
    top_n: TopN,
    truth: Interactions,
    train: Interactions | None,
    metrics: Sequence[MetricSpec],
    *,
    threshold: float | None,
    predictions: npt.NDArray[np.floating[Any]] | None = None,
    candidates: Candidates | None = None,
    curve_ks: Sequence[int] = (),
) -> PerUserScores:
    """Return the scores of all users with a list or a truth, by raw user id in the order of codes.

    A user with relevant truth but without a list scores 0; a user without relevant truth is undefined (NaN)
    for every ranking metric, whatever the list, so that all models are averaged over the same users. A cutoff
    beyond the lists' length counts the missing items as misses.

    Args:
        top_n: The lists, as codes into the truth's vocabularies.
        truth: The held-out interactions; its catalogue is the catalogue.
        train: The train data, on the same vocabularies, for metrics that need it.
        metrics: The metrics, each once.
        threshold: Ratings from it on are relevant; None: ratings above 0 are. The gain stays the rating.
        predictions: The model's predicted ratings of the truth's rows, (len(truth),); None for a model that
            predicts none: metrics that need them are then undefined for all users.
        candidates: The items that lists were chosen from; None: the whole catalogue.
        curve_ks: The cutoffs of ``at_k``, computed for every metric of the list that takes k. Where there are
            any, so is ``pr_curve``.

    Raises:
        DataError: A list or a truth with an item twice, unknown codes, predictions of the wrong number or not
            finite, ratings that a metric does not allow, a metric named twice or in need of the train data.
    """
    state = score_part(
        top_n, truth, train, metrics,
        threshold=threshold, predictions=predictions, candidates=candidates, curve_ks=curve_ks,
    )  # fmt: skip
    return with_ids(state.scores(), truth)


def score_part(
    top_n: TopN,
    truth: Interactions,
    train: Interactions | None,
    metrics: Sequence[MetricSpec],
    *,
    threshold: float | None,
    predictions: npt.NDArray[np.floating[Any]] | None = None,
    candidates: Candidates | None = None,
    curve_ks: Sequence[int] = (),
) -> ScorerState:
    """Return what users contribute to the scores, by their codes; for all users, see ``score_top_n``.

    ``top_n`` and ``truth`` are those of some users; ``train`` and ``candidates`` of all. Merged states give the scores
    of all users, which ``with_ids`` completes.
    """
    check_request(metrics, train is not None, curve_ks, {} if train is None else train.item_attributes)
    blocks = Blocks.of(
        top_n, truth, train=train, threshold=threshold, predictions=predictions, candidates=candidates
    )
    assert blocks.user is not None
    return score_blocks(
        blocks, Request(tuple(metrics), blocks.n, blocks.n_items, tuple(curve_ks)), blocks.user
    )


def score_blocks(blocks: Blocks, request: Request, users: npt.NDArray[np.generic]) -> ScorerState:
    """Return what the users of blocks contribute to the scores; ``users`` (U,) are their raw ids or codes."""
    scorer = Scorer(request.metrics, len(blocks), request.n, request.n_items, curve_ks=request.curve_ks)
    scorer.add(blocks)
    return scorer.state(users)


def with_ids(scores: PerUserScores, truth: Interactions) -> PerUserScores:
    """Return the scores of ``score_part`` with raw ids in place of codes."""
    return replace(scores, users=truth.users[scores.users.astype(np.int64)])


class Scorer:
    """Computation of metrics block by block, in any order of the blocks, with one row a user."""

    def __init__(
        self,
        metrics: Sequence[MetricSpec],
        n_users: int,
        n: int,
        n_items: int,
        *,
        curve_ks: Sequence[int] = (),
    ) -> None:
        """Allocate rows for ``n_users`` users with lists of up to ``n`` items; see ``score_top_n``."""
        self.request = Request(tuple(metrics), n, n_items, tuple(curve_ks))
        per_user, overall = self.request.per_user, self.request.overall
        self.states = {name: metric.start(n_items) for name, metric in overall.items()}
        self.values = np.full((len(per_user), n_users), np.nan)
        self.columns = dict(zip(per_user, self.values, strict=True))
        self.sums = {
            name: ExactSum()
            for name in self.request.every
            if name not in overall and name not in self.columns
        }
        self.precision = [ExactSum() for _ in RECALL_PERCENT] if curve_ks else []

    def add(self, blocks: Blocks, position: Ints | None = None) -> None:
        """Score blocks; ``position`` (U,) is the row of each of their users; None: their order in ``blocks``."""
        updating = Lock()

        def scored(users: Users) -> dict[str, Floats]:
            context = blocks.context(users)
            values = {}
            for name, spec in self.request.every.items():
                k = self.request.n if spec.k is None else spec.k
                if is_overall(spec.metric):
                    with updating:
                        spec.metric.update(self.states[name], context, k)
                else:
                    values[name] = _per_user(spec, context, k)
            if self.precision:
                values[_PR_CURVE] = precision_recall_curve(context)
            return values

        cuts = blocks.cuts()
        # One thread for metrics of plugins, which may have a state or depend on the order of blocks.
        serial = len(cuts) < _MIN_BLOCKS or not all(spec.is_own for spec in self.request.every.values())
        threads = 1 if serial else min(_MAX_THREADS, thread_count())
        with ThreadPoolExecutor(threads) as pool:
            for cut, values in zip(cuts, (pool.map if threads > 1 else map)(scored, cuts), strict=True):
                rows = cut if position is None else position[cut]
                levels = values.pop(_PR_CURVE, np.empty((0, 0))).T
                for level, column in enumerate(levels):
                    self.precision[level] += ExactSum.of(column)
                for name, column in values.items():
                    if name in self.columns:
                        self.columns[name][rows] = column
                    else:
                        self.sums[name] += ExactSum.of(column)

    def state(self, users: npt.NDArray[np.generic] | None = None) -> ScorerState:
        """Return what the users of all blocks so far contribute, to be merged with that of others.

        ``users`` (U,) are their raw ids, or positions among all users; None: their rows here. The state holds the
        values themselves: do not add blocks behind it.
        """
        known = np.arange(self.values.shape[1]) if users is None else users
        return ScorerState(
            self.request,
            (UserValues(known, self.values),),
            overall=self.states,
            sums=self.sums,
            precision=tuple(self.precision),
        )


def _per_user(spec: MetricSpec, context: ScoringContext, k: int) -> Floats:
    if "predictions" in spec.metric.needs and context.predictions is None:
        return np.full(context.n_users, np.nan)
    assert isinstance(spec.metric, UserMetric)
    values = spec.metric(context, k)
    if values.shape != (context.n_users,) or values.dtype != np.float64:
        raise DataError(
            f"metric {spec.name} must return float64 ({context.n_users},), one value a user, "
            f"not {values.dtype} {values.shape}"
        )
    if (infinite := np.isinf(values)).any():
        raise DataError(
            f"metric {spec.name} is infinite for {int(infinite.sum()):,} users, which no mean and no interval can be "
            f"taken of; allowed: finite values, and NaN where it is undefined"
        )
    return values


def check_request(
    metrics: Sequence[MetricSpec],
    has_train: bool,
    curve_ks: Sequence[int] = (),
    item_attributes: Mapping[str, npt.NDArray[np.generic]] | None = None,
) -> None:
    """Check the requested metrics and cutoffs before any work.

    ``item_attributes``: those of the train data; None: lists that were made elsewhere have none.

    Raises:
        DataError: A metric is named twice or needs train data or an attribute that is missing, or a cutoff is below 1.
    """
    names = [spec.name for spec in metrics]
    for position, spec in enumerate(metrics):
        if spec.name in names[:position]:
            raise DataError(f"metric {spec.name} is requested twice")
        if "item_attributes" in spec.metric.needs and item_attributes is None:
            raise DataError(
                f"metric {spec.name} needs attributes of the items, which lists that were made elsewhere do not have; "
                f"a bake-off reads them with its dataset"
            )
        if "train" in spec.metric.needs and not has_train:
            raise DataError(f"metric {spec.name} needs the train data")
        try:
            spec.metric.check_attributes(item_attributes or {})
        except DataError as error:
            raise DataError(f"metric {spec.name}: {error}") from None
    for k in curve_ks:
        if k < 1:
            raise DataError(f"a curve's cutoffs start at 1, not at {k}")
