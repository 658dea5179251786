"""Settings that the data refutes, found right after the split: errors."""

from __future__ import annotations

from collections.abc import Sequence

from evalplugin.base.errors import DataError
from evalplugin.config import CheckedConfig
from evalplugin.data import Candidates, Interactions, Split
from evalplugin.data.base import pair_text
from evalplugin.metrics import MetricSpec
from evalplugin.metrics.blocks import n_candidates
from evalplugin.metrics.off_policy import check_propensities
from evalplugin.metrics.scoring import check_pools


def check_data(config: CheckedConfig, data: Interactions, folds: Sequence[Split]) -> None:
    """Check that scores can be computed on folds of ``data``; ``evalplugin.features.checks`` finds likely mistakes.

    Raises:
        DataError: A truth that lists can never have, a relevance threshold that no rating reaches, or ratings or
            attributes that a metric does not allow.
    """
    if config.spec.recommend.candidates == "unseen":
        for fold in folds:
            _refuse_seen_truth(fold)
    for metric in config.metrics:
        try:
            metric.metric.check_attributes(data.item_attributes)
            for fold in folds:
                metric.metric.check_ratings(*fold.test.rating_scale)
                if "negatives" in metric.metric.needs:
                    _refuse_truth_without_negatives(config, fold)
        except DataError as error:
            raise DataError(f"metrics: {metric.name}: {error}") from None
    if not looks_at_relevance(config.metrics):
        return
    threshold = config.spec.relevance.threshold
    for fold in folds:
        highest = fold.test.rating_scale[1]
        if config.spec.relevance.of(fold.test.rating).any():
            continue
        place = (
            "of the data" if highest == data.rating_scale[1] else f"of the test data (fold {fold.fold + 1})"
        )
        consequence = "no item would be relevant, and no user would have a score"
        if threshold is None:
            raise DataError(
                f"no rating {place} is above 0, the highest is {highest:g}; set relevance.threshold to the lowest "
                f"rating that is relevant: {consequence}"
            )
        raise DataError(
            f"relevance.threshold: no rating {place} reaches {threshold:g}, the highest is {highest:g}; lower it to "
            f"the lowest rating that is relevant: {consequence}"
        )


def check_policies(config: CheckedConfig, folds: Sequence[Split], candidates: Sequence[Candidates]) -> None:
    """Check that policies made of lists can be valued on folds with their candidates.

    Raises:
        DataError: The log has other propensities than a metric needs, or lists are shorter than the pool of which a
            policy may show any item.
    """
    specs = [metric for metric in config.metrics if "log" in metric.needs]
    for fold, allowed in zip(folds, candidates, strict=True) if specs else ():
        check_propensities(specs, fold.test)
        largest = int(n_candidates(allowed, fold.test)[fold.test.active_users].max())
        check_pools(specs, config.spec.recommend.n, largest)


def _refuse_truth_without_negatives(config: CheckedConfig, fold: Split) -> None:
    """Refuse a truth whose pairs are all relevant, for metrics that tell relevant pairs from others."""
    if config.spec.relevance.of(fold.test.rating).all():
        raise DataError(
            f"needs judged pairs that are not relevant, and every rating of the test data (fold {fold.fold + 1}) is "
            f"relevant, the lowest is {fold.test.rating_scale[0]:g}; set relevance.threshold above it, or take data "
            f"with ratings of 0 (items of given candidates without a rating are not judged)"
        )


def _refuse_seen_truth(fold: Split) -> None:
    """Refuse test pairs that are in the train data, as ``candidates: unseen`` leaves them out of every list."""
    if fold.overlap_allowed or not fold.repeats:
        return
    if len(shared := fold.shared_pairs(fold.known)):
        remedy = "In a log of events, set recommend: {candidates: all}"
        if not fold.test.from_events:
            remedy = (
                "Set split: {type: given, overlap: drop} to leave them out of the truth, or recommend: {candidates: "
                "all} to list items of the train data too; where rows are events, duplicates: keep"
            )
        raise DataError(
            f"recommend.candidates: unseen leaves the items of the train data out of lists, and {len(shared):,} of "
            f"{len(fold.test):,} test pairs (fold {fold.fold + 1}) are in the train data too, the first is "
            f"{pair_text(fold.test, shared[0])}: no list can have them. {remedy}"
        )


def looks_at_relevance(specs: Sequence[MetricSpec]) -> bool:
    """Return whether a metric asks which items of the truth are relevant."""
    metrics = (spec.metric for spec in specs)
    return any(
        m.scope == "user" and m.about == "truth" and not {"predictions", "log"} & set(m.needs)
        for m in metrics
    )
