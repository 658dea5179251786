"""Profiles of other libraries: their metrics in terms of ours, their averages and their order of ties."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import NO_ITEM
from evalplugin.base.errors import DataError, UnknownNameError, did_you_mean
from evalplugin.data.decisions import DECISION
from evalplugin.data.interactions import Interactions
from evalplugin.lists.columns import ListInput
from evalplugin.lists.folds import by_fold
from evalplugin.lists.job import ListJob
from evalplugin.lists.scoring import top_n_on
from evalplugin.metrics import Blocks, MetricSpec, parse
from evalplugin.metrics.relevance import ABOVE_0, Relevance
from evalplugin.metrics.scoring import score_top_n
from evalplugin.models.selection import TopN

# A cutoff beyond every list, so that the ideal list of nDCG holds the whole relevant truth.
_ALL = 2**31 - 1
EVERY_RATING = Relevance(threshold=float(np.finfo(np.float32).min))
_HOLES = {"k": r"[1-9]\d*", "x": r"\d*\.?\d+"}


@dataclass(frozen=True)
class Profile:
    """Conventions by which a library computes its numbers; ``score`` reproduces them.

    ``metrics`` maps the library's names to ours; ``{k}`` is a cutoff and ``{x}`` a number.
    """

    name: str
    library: str  # with the version whose numbers were reproduced
    source: str
    metrics: Mapping[str, str]
    without_relevant: Literal["zero", "drop"]  # value of a user without relevant items
    users: Literal["truth", "lists", "both"] = "truth"  # in the mean: all with a truth, a list, both
    relevance: Relevance = EVERY_RATING  # unless another one is asked for
    ties: Literal["given", "trec_eval"] = "given"  # given: in the order of the lists
    differs: tuple[str, ...] = ()  # numbers that are not reproduced, and why

    def metric(self, name: str) -> MetricSpec:
        """Return our metric for a name of the library's.

        Raises:
            UnknownNameError: The library has no such metric, or it cannot be reproduced.
        """
        for theirs, ours in self.metrics.items():
            literal, *rest = re.split(r"\{(k|x)\}", theirs)
            pattern = re.escape(literal)
            for hole, after in zip(rest[::2], rest[1::2], strict=True):
                pattern += f"(?P<{hole}>{_HOLES[hole]})" + re.escape(after)
            if match := re.fullmatch(pattern, name):
                return parse(ours.format(**match.groupdict()))
        known = [theirs.format(k=10, x=0.5) for theirs in self.metrics]
        raise UnknownNameError(f"unknown metric {name!r} of {self.name}{did_you_mean(name, known)}")

    def score(
        self,
        top_n: TopN,
        truth: Interactions,
        metrics: Sequence[str],
        *,
        train: Interactions | None = None,
        relevance: Relevance = ABOVE_0,
    ) -> dict[str, float]:
        """Return the number that the library prints for each of its metrics, NaN where it has none.

        Args:
            top_n: The uncut lists, as codes into the truth's vocabularies; ties are sorted as the library does.
            truth: The held-out interactions.
            metrics: The library's names.
            train: The train data, for metrics that need it.
            relevance: Which ratings are relevant; without a threshold: the library's default.

        Raises:
            UnknownNameError: A name that the profile does not have.
            DataError: As ``evalplugin.metrics.scoring.score_top_n``.
        """
        ours = {name: self.metric(name) for name in metrics}
        specs = list({spec.name: spec for spec in ours.values()}.values())
        relevance = self.relevance if relevance.threshold is None else relevance
        lists = _in_trec_order(top_n, truth) if self.ties == "trec_eval" else top_n
        blocks = Blocks.of(lists, truth, train=train, relevance=relevance)
        scores = score_top_n(blocks, specs)
        has_list = np.isin(blocks.users, truth.users[top_n.user])
        has_truth = np.isin(blocks.users, truth.users[truth.user])
        counted = {"truth": has_truth, "lists": has_list, "both": has_list & has_truth}[self.users]
        numbers = {}
        for name, spec in ours.items():
            if spec.name in scores.overall:
                numbers[name] = scores.overall[spec.name]
                continue
            value = scores.column(spec.name)
            if spec.metric.about == "lists":
                numbers[name] = _mean(value, has_list)
            else:
                zeros = self.without_relevant == "zero"
                numbers[name] = _mean(np.nan_to_num(value) if zeros else value, counted)
        return numbers


def score_as(job: ListJob, library: str, metrics: Sequence[str]) -> dict[str, float]:
    """Return the numbers that another library prints for its own metrics, by its names.

    Raises:
        UnknownNameError: No profile of that library, or no such metric in it.
        DataError: Files that break a rule; options of the job that a library's conventions do not have.
    """
    conventions = profile(library)
    for option in ("pool", "memory", "partitioned", "engine"):
        if getattr(job, option):
            raise refused(f"--{option}")
    if job.columns.unit == "query":
        raise refused("--query")
    if job.unit == DECISION:
        raise refused("--truth with a log of decisions")
    if not metrics:
        raise DataError(f"no metric is asked for; {library} has {', '.join(conventions.metrics)}")
    for name in metrics:
        conventions.metric(name)
    by_fold(job.sources, job.columns, option="--as")
    lists, truth, train = top_n_on(ListInput.read(job.sources, job.columns))
    return conventions.score(lists, truth, metrics, train=train, relevance=job.relevance)


def refused(option: str) -> DataError:
    """Return the error for an option of the command that does not go with a profile."""
    return DataError(f"--as reproduces the means that a library prints; {option} does not go with it")


def profile(name: str) -> Profile:
    """Return the profile of a library.

    Raises:
        UnknownNameError: There is none; the message has the nearest name.
    """
    if name not in PROFILES:
        raise UnknownNameError(f"unknown profile {name!r}{did_you_mean(name, list(PROFILES))}")
    return PROFILES[name]


def _in_trec_order(top_n: TopN, truth: Interactions) -> TopN:
    """Return the lists by score as float32, descending, and equal ones by item id as text, descending."""
    text = np.array([str(item).encode() for item in truth.items.tolist()], dtype=object)
    position = np.empty(len(text), dtype=np.int64)
    position[np.argsort(text, kind="stable")] = np.arange(len(text))
    listed = top_n.item != NO_ITEM
    score = np.where(listed, top_n.score.astype(np.float32), -np.inf)
    if np.isnan(score).any():
        raise DataError("the rule for ties needs a score for every listed item")
    tie_break = np.where(listed, -position[top_n.item], 1)
    order = np.lexsort((tie_break, -score, ~listed), axis=1)
    return TopN(
        top_n.user,
        np.take_along_axis(top_n.item, order, axis=1),
        np.take_along_axis(top_n.score, order, axis=1),
    )


def _mean(value: npt.NDArray[np.float64], weight: npt.NDArray[np.generic]) -> float:
    weights = np.where(np.isnan(value), 0, weight).astype(np.float64)
    total = weights.sum()
    return float((np.nan_to_num(value) * weights).sum() / total) if total else float("nan")


PROFILES: Mapping[str, Profile] = {
    p.name: p
    for p in (
        Profile(
            name="trec_eval",
            library="trec_eval 9, through pytrec_eval-terrier 0.5.11",
            source="https://github.com/usnistgov/trec_eval",
            metrics={
                "P_{k}": "precision@{k}",
                "recall_{k}": "recall@{k}",
                "success_{k}": "hit@{k}",
                "map": "ap",
                "map_cut_{k}": "ap@{k}",
                "recip_rank": "rr",
                "ndcg": f"ndcg@{_ALL}",
                "ndcg_cut_{k}": "ndcg@{k}",
                "Rprec": "r_precision",
                "bpref": "bpref",
                "iprec_at_recall_{x}": "precision_at_recall(level={x})",
            },
            ties="trec_eval",
            users="both",
            without_relevant="zero",
            relevance=Relevance(threshold=1.0),
            differs=(
                "iprec_at_recall at levels whose product with the relevant items is whole but not exact in binary "
                "(0.3 * 7 = 2.0999...), which trec_eval rounds down to one hit fewer",
                "the options -c (topics without a list count 0), -l and -J; -l is the threshold here",
                "ratings below 0, which trec_eval takes for not judged",
            ),
        ),
        Profile(
            name="ranx",
            library="ranx 0.3.21, with make_comparable=True",
            source="https://amenra.github.io/ranx/metrics/",
            metrics={
                "precision": "precision(denominator=listed)",
                "precision@{k}": "precision@{k}",
                "recall": "recall",
                "recall@{k}": "recall@{k}",
                "f1@{k}": "f1@{k}",
                "hit_rate": "hit",
                "hit_rate@{k}": "hit@{k}",
                "mrr": "rr",
                "mrr@{k}": "rr@{k}",
                "map": "ap",
                "map@{k}": "ap@{k}",
                "dcg": "dcg",
                "dcg@{k}": "dcg@{k}",
                "ndcg": f"ndcg@{_ALL}",
                "ndcg@{k}": "ndcg@{k}",
                "dcg_burges": "dcg(gain=exp2)",
                "dcg_burges@{k}": "dcg(gain=exp2)@{k}",
                "ndcg_burges": f"ndcg(gain=exp2)@{_ALL}",
                "ndcg_burges@{k}": "ndcg(gain=exp2)@{k}",
                "r-precision": "r_precision",
            },
            without_relevant="zero",
            relevance=Relevance(threshold=1.0),
            differs=(
                "equal scores, whose order in ranx is that of an unstable sort",
                "bpref, which in ranx is no number for a user without an item judged non-relevant",
                "rbp, which in ranx adds up judgments instead of hits",
                "f1 without a cutoff, which in ranx divides by the length of each list",
            ),
        ),
        Profile(
            name="rectools",
            library="RecTools 0.19.0",
            source="https://rectools.readthedocs.io/en/stable/api/rectools.metrics.html",
            metrics={
                "Precision(k={k})": "precision@{k}",
                "Precision(k={k}, r_precision=True)": "recall(denominator=min)@{k}",
                "Recall(k={k})": "recall@{k}",
                "F1Beta(k={k})": "f1@{k}",
                "HitRate(k={k})": "hit@{k}",
                "MRR(k={k})": "rr@{k}",
                "MAP(k={k})": "ap@{k}",
                "MAP(k={k}, divide_by_k=True)": "ap(denominator=k)@{k}",
                "NDCG(k={k})": "ndcg(gain=binary, ideal=k)@{k}",
                "NDCG(k={k}, divide_by_achievable=True)": "ndcg(gain=binary)@{k}",
                "MeanInvUserFreq(k={k})": "novelty@{k}",
                "AvgRecPopularity(k={k})": "popularity@{k}",
            },
            without_relevant="drop",
            differs=(
                "the AUC family, whose ranks beyond the list are those of RecTools' own catalogue",
                "Serendipity, which in RecTools weighs each hit by its popularity rank",
                "IntraListDiversity, which needs distances that RecTools is given",
                "CatalogCoverage, Accuracy and MCC, whose catalogue RecTools is given",
                "debiased variants, which draw from the interactions",
            ),
        ),
        Profile(
            name="recbole",
            library="RecBole 1.2.1",
            source="https://github.com/RUCAIBox/RecBole/blob/v1.2.1/recbole/evaluator/metrics.py",
            metrics={
                "recall@{k}": "recall@{k}",
                "precision@{k}": "precision@{k}",
                "ndcg@{k}": "ndcg(gain=binary)@{k}",
                "mrr@{k}": "rr@{k}",
                "map@{k}": "ap(denominator=min)@{k}",
                "hit@{k}": "hit@{k}",
            },
            without_relevant="drop",
            differs=(
                "rounding: RecBole prints four decimals (metric_decimal_place)",
                "ItemCoverage, AveragePopularity, GiniIndex, ShannonEntropy and TailPercentage, whose items RecBole "
                "counts by its own padded catalogue",
                "AUC, GAUC, LogLoss, MAE and RMSE, which need RecBole's scores of all items or of labelled pairs",
                "uni100 and pop100 lists, which rank drawn items: draw the same to compare",
            ),
        ),
        Profile(
            name="lenskit",
            library="LensKit 2025.8.1, RunAnalysis.list_summary",
            source="https://lkpy.lenskit.org/stable/guide/evaluation/rankings.html",
            metrics={
                "Precision": "precision(denominator=listed)",
                "Precision@{k}": "precision(denominator=listed)@{k}",
                "Recall": "recall",
                "Recall@{k}": "recall(denominator=min)@{k}",
                "Hit": "hit",
                "Hit@{k}": "hit@{k}",
                "RecipRank": "rr",
                "RecipRank@{k}": "rr@{k}",
                "AveragePrecision": "ap(denominator=listed)",
                "AveragePrecision@{k}": "ap(denominator=listed)@{k}",
                "DCG": "dcg(gain=binary, discount=log, base=2)",
                "DCG@{k}": "dcg(gain=binary, discount=log, base=2)@{k}",
                "NDCG": f"ndcg(gain=binary, discount=log, base=2)@{_ALL}",
                "NDCG@{k}": "ndcg(gain=binary, discount=log, base=2)@{k}",
                "RBP": "rbp(p=0.85)",
                "RBP@{k}": "rbp(p=0.85)@{k}",
            },
            users="lists",
            without_relevant="zero",
            differs=(
                "AveragePrecision of a user without truth, where LensKit divides by zero and stops",
                "NDCG and DCG with gain=, with other weights, and RBP with normalize=True",
                "ListGini and MeanPopRank, which rank in ways of their own",
                "ExposureGini with other weights than LogRankWeight(offset=1), which are those of exposure_gini",
            ),
        ),
        Profile(
            name="recommenders.jl",
            library="Recommenders.jl 0.1, as documented",
            source="https://yng87.github.io/Recommenders.jl/dev/metrics/",
            metrics={
                "precision{k}": "precision@{k}",
                "recall{k}": "recall@{k}",
                "dcg{k}": "dcg(gain=binary, discount=ln)@{k}",
                "ndcg{k}": "ndcg(gain=binary, discount=ln, cut=truth)@{k}",
            },
            without_relevant="drop",
            differs=(
                "its code (src/metric.jl), where it departs from its documentation: that divides precision by the "
                "items listed, takes the logarithm to base 2, and cuts the best list alone, at what is listed: "
                "precision(denominator=listed)@k, dcg(gain=binary)@k, ndcg(gain=binary, ideal=listed)@k",
            ),
        ),
    )
}
