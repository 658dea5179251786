"""Options and scores of the MLflow evaluator, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evalplugin.base.errors import DataError
from evalplugin.components.parameters import build
from evalplugin.data import Candidates, Interactions
from evalplugin.execution.tasks import curve_ks
from evalplugin.lists.catalogue import interactions_alone
from evalplugin.lists.cells import Cells, column_of, input_of_lists, input_of_pairs
from evalplugin.lists.columns import ListInput
from evalplugin.lists.scores import specs_of
from evalplugin.lists.scoring import top_n_on
from evalplugin.metrics import Blocks, MetricSpec, parse
from evalplugin.metrics.scores import PerUserScores
from evalplugin.metrics.scoring import check_request, score_top_n
from evalplugin.models import TopN

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["DEFAULT_METRICS", "Evaluated", "Evaluation", "EvaluatorOptions"]

DEFAULT_METRICS = ("ndcg@10", "recall@10", "precision@10", "rr", "hit@10")

_Text = Annotated[str, Field(min_length=1)]
_Cutoff = Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class EvaluatorOptions:
    """Options of ``evaluator_config``; see ``evalplugin.mlflow_evaluator.RankingEvaluator``."""

    metrics: Annotated[list[str], Field(min_length=1)] | None = None
    k: _Cutoff | list[_Cutoff] | None = None
    threshold: float | None = None
    user: _Text | None = None
    group: _Text | None = None  # the same as user
    item: _Text | None = None  # given: every row is a scored pair
    name: _Text | None = None
    dataset: _Text | None = None
    train: InitVar[Any] = None  # a DataFrame, stored without validation
    history: Any = field(init=False, repr=False)

    def __post_init__(self, train: Any) -> None:
        if self.k == []:
            raise ValueError("k: must not be empty")
        if self.user is not None and self.group is not None and self.user != self.group:
            raise ValueError(f"user and group are two names of one thing: {self.user!r} or {self.group!r}")
        object.__setattr__(self, "history", train)

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> EvaluatorOptions:
        """Return the checked options of an ``evaluator_config``, optionally nested under the evaluator's name.

        Raises:
            ParameterError: Unknown keys or values that are not allowed, all of them listed.
        """
        if list(config) == ["evalplugin"] and isinstance(config["evalplugin"], Mapping):
            config = config["evalplugin"]
        return build(cls, config, owner="evaluator_config")

    def columns(self) -> dict[str, str]:
        """Return the given names of columns by role."""
        given = {"user": self.user or self.group, "item": self.item}
        return {role: name for role, name in given.items() if name is not None}

    def specs(self) -> list[MetricSpec]:
        """Return the requested metrics.

        Raises:
            DataError: ``k`` applies to none of them, a metric is requested twice, or its data is missing.
            ParameterError, UnknownNameError: A name that means no metric.
        """
        specs = [parse(name) for name in (DEFAULT_METRICS if self.metrics is None else self.metrics)]
        if self.k is not None:
            if self.metrics is None:
                specs = [spec.at(None) for spec in specs]
            if not any(_is_open(spec) for spec in specs):
                names = ", ".join(spec.name for spec in specs)
                raise DataError(
                    f"k={self.k} is for metrics without a cutoff of their own, and there is none: {names}"
                )
            ks = [self.k] if isinstance(self.k, int) else self.k
            specs = [spec.at(k) for spec in specs for k in (ks if _is_open(spec) else [spec.k])]
        if self.item is None:
            specs_of(specs)
        for spec in specs:
            if "train" in spec.metric.needs and self.history is None:
                raise DataError(f"metric {spec.name} needs the train data: a DataFrame under the key 'train'")
        check_request(specs, has_train=True)
        return specs


@dataclass(frozen=True, eq=False)
class Evaluated:
    """Scores and their data, on vocabularies of the data alone, so that its digest depends on nothing else."""

    scores: PerUserScores
    top_n: pa.Table  # user, item, rank, score; NaN where lists have no scores
    truth: Interactions
    train: Interactions | None


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A table to evaluate: checked as far as possible before a model predicts."""

    options: EvaluatorOptions
    specs: Sequence[MetricSpec]
    users: pd.Series[Any]  # of each row
    items: pd.Series[Any] | None  # of each row of scored pairs; None: every row holds a list
    targets: Cells

    @classmethod
    def of(cls, options: EvaluatorOptions, features: pd.DataFrame, targets: Cells) -> Evaluation:
        """Return an evaluation of the rows of a table.

        Args:
            options: Metrics, threshold and names of columns.
            features: The table without predictions and targets.
            targets: Each row's relevant items, or each pair's rating.

        Raises:
            EvalpluginError: A missing column, a metric that cannot be computed.
        """
        import pandas as pd

        specs = options.specs()
        user = options.columns().get("user", "user")
        if user in features.columns or "user" in options.columns():
            users = column_of(features, user, "user")
        elif options.item is None:
            users = pd.Series(np.arange(len(features)), name=user)
        else:
            names = ", ".join(map(str, features.columns))
            raise DataError(
                f"scored pairs need the column of users: name it under the key 'group'; columns: {names}"
            )
        items = None if options.item is None else column_of(features, options.item, "item")
        return cls(options, specs, users, items, targets)

    def score(self, predictions: Cells) -> Evaluated:
        """Return every user's scores for the rows' lists, or for lists of the scored pairs.

        Raises:
            DataError: Values that break a rule.
        """
        if len(predictions.values) != len(self.users):
            raise DataError(
                f"{predictions.name}: there must be one for each of the {len(self.users)} rows of the data, not "
                f"{len(predictions.values)}"
            )
        if self.items is None:
            return self._score_lists(predictions)
        return self._score_pairs(predictions, self.items)

    def _score_lists(self, predictions: Cells) -> Evaluated:
        lists, truth = (
            cells if cells.name == role else cells._replace(name=f"{role} {cells.name!r}")
            for role, cells in (("predictions", predictions), ("targets", self.targets))
        )
        inputs = input_of_lists(self.users, lists, truth, self.options.history)
        if inputs.truth.values is None and self.options.threshold is not None:
            raise DataError(
                f"threshold={self.options.threshold:g} is for ratings, and {truth.name} holds none: give a dict of "
                f"ratings by item in each row"
            )
        top_n, held_out, train = top_n_on(inputs)
        top_n = replace(top_n, score=np.full(top_n.item.shape, np.nan))
        scores = self._scores(top_n, held_out, train)
        return _evaluated(_with_all_users(scores, self.users), top_n.to_table(held_out), inputs)

    def _score_pairs(self, predictions: Cells, items: pd.Series[Any]) -> Evaluated:
        inputs = input_of_pairs(self.users, items, predictions, self.targets, self.options.history)
        top_n, held_out, train = top_n_on(inputs)
        # Every row is a candidate, and its score a prediction of its rating.
        candidates = Candidates("judged", included=held_out.rows)
        scores = self._scores(top_n, held_out, train, candidates, inputs.lists.values)
        return _evaluated(scores, top_n.to_table(held_out), inputs)

    def _scores(
        self,
        top_n: TopN,
        truth: Interactions,
        train: Interactions | None,
        candidates: Candidates | None = None,
        predictions: npt.NDArray[Any] | None = None,
    ) -> PerUserScores:
        return score_top_n(
            Blocks.of(
                top_n,
                truth,
                train=train,
                threshold=self.options.threshold,
                predictions=predictions,
                candidates=candidates,
            ),
            self.specs,
            curve_ks(top_n.n, self.specs),
        )


def _evaluated(scores: PerUserScores, top_n: pa.Table, inputs: ListInput) -> Evaluated:
    train = None if inputs.train is None else interactions_alone(inputs.train)
    return Evaluated(scores, top_n, interactions_alone(inputs.truth), train)


def _with_all_users(scores: PerUserScores, users: pd.Series[Any]) -> PerUserScores:
    """Return the scores with undefined ones for users without list and truth, so that these are counted."""
    if len(scores.users) == len(users):
        return scores
    all_users = np.array(sorted(users.tolist()), dtype=scores.users.dtype)
    values = np.full((len(all_users), len(scores.metrics)), np.nan)
    values[np.searchsorted(all_users, scores.users)] = scores.values
    return replace(scores, users=all_users, values=values)


def _is_open(spec: MetricSpec) -> bool:
    return spec.k is None and spec.metric.takes_k
