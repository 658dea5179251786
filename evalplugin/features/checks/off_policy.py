"""Checks of off-policy values: wrong weights, no support, logs that cannot tell."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from evalplugin.base.numbers import percent
from evalplugin.comparison.doubt import (
    LEAST_EFFECTIVE,
    LEAST_REWARDED,
    MOST_LARGEST,
    MOST_UNSUPPORTED,
    WEIGHT_LEVEL,
    Kind,
    doubts_of,
    percents,
    values_among,
)
from evalplugin.config import CheckedConfig
from evalplugin.execution.runner import PreparedData
from evalplugin.features.checks.base import Found, SplitResults, data_check, result_check


@result_check(
    "EV123",
    title="a few decisions decide a value",
    rule=f"Found where decisions of a log are weighted by the policy of a model, and the effective number of them, "
    f"(sum w)^2 / sum w^2, is below {LEAST_EFFECTIVE:g}, one has more than {percents(MOST_LARGEST)} of all weight, or "
    f"the effective number of users with a reward (without users, of decisions) is below {LEAST_REWARDED:g}.",
    why="The value rests on these decisions: another log would give quite another one, and its interval is too narrow. "
    "The verdict and the gate say that they cannot tell.",
    source="Owen, Monte Carlo theory, methods and examples, 2013, chapter 9; Saito et al., NeurIPS Datasets 2021.",
    remedy="Value a longer log, or a policy that is nearer to what was shown: a higher `temperature`, a larger "
    "`epsilon`, fewer positions (`@1`). `estimator=dr` needs fewer decisions where rewards can be predicted.",
)
def _few_decisions(results: SplitResults) -> Iterator[Found]:
    yield from _doubts(results, "few decisions", "one decision", "few rewards")


@result_check(
    "EV124",
    title="weights that do not average 1",
    rule=f"Found where the {percent(WEIGHT_LEVEL)} interval of the mean weight of the decisions of a log, by the "
    f"policy of a model, does not hold 1, or what 1 leaves for items that the log never shows. With `clipped`, of the "
    f"clipped weights. Not with `replay` and `dm`, and not where propensities are assumed.",
    why="The mean weight is 1 by definition where propensities are the probabilities with which items were shown: "
    "values by wrong propensities are wrong too, however many decisions there are.",
    source="Li et al., KDD 2018; Lefortier et al., 2016, arXiv:1612.00367.",
    remedy="See that propensities were logged at the moment of the decision, for the position that they stand at, and "
    "that no decisions were left out by what happened after (such as those without a click). With `clipped`, raise the "
    "bound.",
)
def _wrong_weights(results: SplitResults) -> Iterator[Found]:
    yield from _doubts(results, "wrong weights")


@result_check(
    "EV125",
    title="a policy that shows what the log never shows",
    rule=f"Found where more than {percents(MOST_UNSUPPORTED)} of what the policy of a model would show are items that "
    f"no decision of the log shows.",
    why="Nobody knows what these items earn: weights leave them out, and a model of rewards guesses.",
    source="Sachdeva, Su and Joachims, KDD 2020.",
    remedy="Value the model on the items that were shown (`recommend: {candidates: given}`), or show the others to a "
    "few users first.",
)
def _no_support(results: SplitResults) -> Iterator[Found]:
    yield from _doubts(results, "no support")


@data_check(
    "EV126",
    title="a log of a greedy policy",
    rule="Found where all propensities of a log of decisions are 1, though it shows several items.",
    why="What was shown was certain, so that nothing is known of anything else: decisions count only where a model "
    "shows the same, and those are no random ones.",
    source="Langford, Strehl and Wortman, ICML 2008.",
    remedy="Let the logging policy draw, if only now and then, and log the probabilities. If it did draw, find them; "
    "without them, `propensity: {estimate: item-position}` is an assumption, and is called one.",
)
def _greedy_log(config: CheckedConfig, data: PreparedData) -> Iterator[Found]:
    log = data.info.full
    if log.propensity is None or log.assumed is not None or log.propensity.min() < 1:
        return
    if (items := int((log.item_counts > 0).sum())) > 1:
        yield Found(
            f"all propensities of the log are 1, though it shows {items:,} items: it tells of a model only where this "
            f"shows the same"
        )


@data_check(
    "EV127",
    title="a log of rewards alone",
    rule="Found where every decision of a log has a row with a reward above 0.",
    why="A log of what was clicked lacks what was shown in vain: every policy seems to earn as much as the best.",
    source="Joachims, Swaminathan and de Rijke, ICLR 2018 (what a log of decisions has).",
    remedy="Log all that was shown, with a reward of 0 where it earned nothing. Where each decision does earn "
    "something, such as seconds of watching, ignore it (`checks.ignore`).",
)
def _rewards_alone(config: CheckedConfig, data: PreparedData) -> Iterator[Found]:
    log = data.info.full
    if log.is_log and (n := len(log.active_users)) == len(np.unique(log.user[log.rating > 0])):
        yield Found(
            f"each of {n:,} decisions has a row with a reward: does the log lack what earned nothing?"
        )


def _doubts(results: SplitResults, *kinds: Kind) -> Iterator[Found]:
    """Yield the reasons of some kinds to doubt the values of each model, a line for each value that is in doubt."""
    contest = results.comparison.contest
    for spec in values_among(map(contest.spec, contest.metrics)):
        for model, doubt in doubts_of(contest, spec.name).items():
            if texts := [reason.text for reason in doubt.reasons if reason.kind in kinds]:
                yield Found(f"{model} by {spec.name}: {'; '.join(texts)}", model)
