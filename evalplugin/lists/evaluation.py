"""Options and scores of the MLflow evaluator: of tables with a list in each cell, or a scored pair in each row."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from itertools import chain
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import position_in_row
from evalplugin.base.errors import DataError
from evalplugin.base.libraries import pd
from evalplugin.components.parameters import build
from evalplugin.data import Candidates, Interactions
from evalplugin.data.queries import check_query_ids
from evalplugin.data.tables import Table, column_problem
from evalplugin.execution.results import FoldLists
from evalplugin.execution.tasks import curve_ks
from evalplugin.lists.catalogue import interactions_alone
from evalplugin.lists.columns import ListColumns, ListInput, Sources
from evalplugin.lists.scores import specs_of
from evalplugin.lists.scoring import top_n_on
from evalplugin.metrics import Blocks, MetricSpec, parse
from evalplugin.metrics.blocks import raw_text
from evalplugin.metrics.relevance import Relevance
from evalplugin.metrics.scores import PerUserScores, Units
from evalplugin.metrics.scoring import check_request, score_top_n

DEFAULT_METRICS = ("ndcg@10", "recall@10", "precision@10", "rr", "hit@10")

_Text = Annotated[str, Field(min_length=1)]

_ITEM = "item"  # name of the item column in the train data, where lists are in cells
_PAIRS = "; scored pairs need the item column named"


def column_of(frame: pd.DataFrame, name: str, role: str, source: str = "data") -> pd.Series[Any]:
    """Return a column under a fresh index.

    Args:
        frame: The table.
        name: Name of the column.
        role, source: Names of the column's purpose and of the table in messages.

    Raises:
        DataError: No column has that name, or several have.
    """
    names = [str(column) for column in frame.columns]
    if problem := column_problem(name, names, role):
        raise DataError(f"{source}: {problem}")
    return frame.iloc[:, names.index(name)].reset_index(drop=True)


@dataclass(frozen=True)
class EvaluatorOptions:
    """Options of ``evaluator_config``; see ``evalplugin.mlflow_evaluator.RankingEvaluator``."""

    metrics: Annotated[list[str], Field(min_length=1)] | None = None
    threshold: float | None = None
    user: _Text | None = None
    query: _Text | None = None  # in place of user: ids of queries of sessions
    item: _Text | None = None  # given: every row is a scored pair
    name: _Text | None = None
    dataset: _Text | None = None
    train: InitVar[Any] = None  # a DataFrame, stored without validation
    history: Any = field(init=False, repr=False)

    def __post_init__(self, train: Any) -> None:
        if self.query is not None and self.user is not None:
            raise ValueError("query: names the column of queries in place of user: leave one out")
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

    @property
    def relevance(self) -> Relevance:
        """Which ratings are relevant."""
        return Relevance(threshold=self.threshold)

    def columns(self) -> dict[str, str]:
        """Return the given names of columns by role."""
        given = {"user": self.user or self.query, "item": self.item}
        return {role: name for role, name in given.items() if name is not None}

    def specs(self) -> list[MetricSpec]:
        """Return the requested metrics.

        Raises:
            DataError: A metric is requested twice, or its data is missing.
            ParameterError, UnknownNameError: A name that means no metric.
        """
        specs = [parse(name) for name in (DEFAULT_METRICS if self.metrics is None else self.metrics)]
        if self.item is None:
            specs_of(specs)
        for spec in specs:
            if "train" in spec.needs and self.history is None:
                raise DataError(f"metric {spec.name} needs the train data: a DataFrame under the key 'train'")
        check_request(specs, has_train=True)
        return specs


@dataclass(frozen=True, eq=False)
class Evaluated:
    """Scores and their data, on vocabularies of the data alone, so that its digest depends on nothing else."""

    scores: PerUserScores
    lists: FoldLists  # with NaN where they have no scores
    truth: Interactions
    train: Interactions | None


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A table to evaluate; all but the predictions is checked before a model predicts."""

    options: EvaluatorOptions
    specs: Sequence[MetricSpec]
    users: pd.Series[Any]  # of each row
    items: pd.Series[Any] | None  # of each row of scored pairs; None: every row holds a list
    targets: pd.Series[Any]

    @classmethod
    def of(cls, options: EvaluatorOptions, features: pd.DataFrame, targets: pd.Series[Any]) -> Evaluation:
        """Return an evaluation of the rows of a table.

        Args:
            options: Metrics, threshold and names of columns.
            features: The table without predictions and targets.
            targets: Each row's relevant items, or each pair's rating.

        Raises:
            EvalpluginError: A missing column, a metric that cannot be computed.
        """
        specs = options.specs()
        user = options.columns().get("user", "user")
        if user in features.columns or "user" in options.columns():
            users = column_of(features, user, "user")
        elif options.item is None:
            users = pd.Series(np.arange(len(features)), name=user)
        else:
            names = ", ".join(map(str, features.columns))
            raise DataError(
                f"scored pairs need the column of users: name it under the key 'user'; columns: {names}"
            )
        items = None if options.item is None else column_of(features, options.item, "item")
        return cls(options, specs, users, items, targets)

    def score(self, predictions: pd.Series[Any]) -> Evaluated:
        """Return every user's scores for the rows' lists, or for lists of the scored pairs.

        Raises:
            DataError: Values that break a rule.
        """
        if len(predictions) != len(self.users):
            raise DataError(
                f"{predictions.name}: there must be one for each of the {len(self.users)} rows of the data, not "
                f"{len(predictions)}"
            )
        options, candidates, ratings = self.options, None, None
        inputs = self._inputs(predictions)
        top_n, truth, train = top_n_on(inputs)
        if self.items is None:
            top_n = replace(top_n, score=np.full(top_n.item.shape, np.nan))
        else:
            # Every row is a candidate, and its score a prediction of its rating.
            candidates, ratings = Candidates("judged", included=truth.rows), inputs.lists.values
        blocks = Blocks.of(
            top_n,
            truth,
            train=train,
            relevance=options.relevance,
            predictions=ratings,
            candidates=candidates,
        )
        scores = score_top_n(blocks, self.specs, curve_ks(top_n.n, self.specs))
        if self.items is None:
            scores = _with_all_users(scores, self.users)
        if options.query is not None:
            check_query_ids(scores.users)
            scores = replace(scores, units=Units.of_lists(scores.users, "query"))
        return Evaluated(
            scores,
            FoldLists((top_n,), (truth,)),
            interactions_alone(inputs.truth),
            None if inputs.train is None else interactions_alone(inputs.train),
        )

    def _inputs(self, predictions: pd.Series[Any]) -> ListInput:
        if self.items is not None:
            return self._of_pairs(self.items, predictions)
        lists, truth = (
            cells if cells.name == role else cells.rename(f"{role} {cells.name!r}")
            for role, cells in (("predictions", predictions), ("targets", self.targets))
        )
        inputs, threshold = self._of_lists(lists, truth), self.options.threshold
        if inputs.truth.values is None and threshold is not None:
            raise DataError(
                f"threshold={threshold:g} is for ratings, and {truth.name} holds none: give a dict of "
                f"ratings by item in each row"
            )
        return inputs

    def _of_lists(self, lists: pd.Series[Any], truth: pd.Series[Any]) -> ListInput:
        """Return the columns of a table with one row a user.

        Raises:
            DataError: A user with two rows, a cell without a list, ids or ratings that break a rule.
        """
        users, user = self.users, str(self.users.name)
        Table(users.to_frame(user), "data").ids(user, "user")
        twice = np.flatnonzero(users.duplicated())
        if len(twice):
            first, again = np.flatnonzero(users == users[twice[0]])[:2]
            raise DataError(
                f"data: user {raw_text(users[again])} stands in rows {first + 1} and {again + 1} (counted from 1), but "
                f"lists take one row a user{_PAIRS}"
            )
        held_out, ratings = _truth(users, truth)
        return self._read(
            _one_row_an_item(users, lists, _checked_lists(users, lists)),
            _one_row_an_item(users, truth, held_out, ratings),
            ListColumns(user=user, item=_ITEM, rank="rank"),
        )

    def _of_pairs(self, items: pd.Series[Any], scores: pd.Series[Any]) -> ListInput:
        """Return the columns of a table of scored pairs, one row each: every pair is a candidate with a rating.

        Raises:
            DataError: Ids, scores or ratings that break a rule.
        """
        columns = [self.users, items, scores, self.targets]
        user, item, score, rating = keys = [str(column.name) for column in columns]
        pairs = Table(pd.concat(columns, axis=1, keys=keys), "data")
        names = ListColumns(user=user, item=item, score=score, rating=rating)
        return self._read(pairs, pairs, names)

    def _read(self, lists: Table, truth: Table, columns: ListColumns) -> ListInput:
        train = self.options.history
        sources: Sources = {
            "lists": lists, "truth": truth, "train": None if train is None else Table(train, "train"),
        }  # fmt: skip
        return ListInput.read(sources, columns)


def _with_all_users(scores: PerUserScores, users: pd.Series[Any]) -> PerUserScores:
    """Return the scores with undefined ones for users without list and truth, so that these are counted."""
    if len(scores.users) == len(users):
        return scores
    all_users = np.array(sorted(users.tolist()), dtype=scores.users.dtype)
    values = np.full((len(all_users), len(scores.metrics)), np.nan)
    values[np.searchsorted(all_users, scores.users)] = scores.values
    return replace(scores, units=Units(all_users), values=values)


def _checked_lists(users: pd.Series[Any], lists: pd.Series[Any]) -> list[Any]:
    for user, cell in zip(users, lists, strict=True):
        if not is_list(cell):
            hint = _PAIRS if isinstance(cell, float | np.floating) else ""
            raise DataError(
                f"{lists.name}: for user {raw_text(user)} there must be a list of items, best first, not "
                f"{_shown(cell)}{hint}"
            )
    return list(lists)


def _truth(users: pd.Series[Any], truth: pd.Series[Any]) -> tuple[list[Any], list[Any] | None]:
    """Return each user's items, and their ratings where the cells are mappings."""
    rated = any(isinstance(cell, Mapping) for cell in truth)
    items: list[Any] = []
    for user, cell in zip(users, truth, strict=True):
        if not (isinstance(cell, Mapping) or is_list(cell)):
            raise DataError(
                f"{truth.name}: for user {raw_text(user)} there must be a list of relevant items, or a dict of "
                f"ratings by item, not {_shown(cell)}"
            )
        if rated and len(cell) and not isinstance(cell, Mapping):
            raise DataError(
                f"{truth.name}: for user {raw_text(user)} there are no ratings, but for others there are: "
                f"every cell must be a dict of ratings by item, or none"
            )
        items.append(cell if is_list(cell) else list(cell))
    if not rated:
        return items, None
    return items, list(chain.from_iterable(cell.values() for cell in truth if len(cell)))


def _one_row_an_item(
    users: pd.Series[Any], cells: pd.Series[Any], items: list[Any], ratings: list[Any] | None = None
) -> Table:
    """Return each user's items as a table with one row an item: user, item, rank from 1 and, if given, rating."""
    rows = rows_of_lists(users, items)
    if rows.empty:
        raise DataError(f"{cells.name}: there is no item in any of the {len(users)} rows")
    user, rank = rows["user"], rows["rank"]
    columns = [rows[name] for name in rows]
    names = [str(users.name), _ITEM, "rank"]
    if ratings is not None:
        columns.append(pd.Series(ratings))
        names.append("rating")

    def row_name(row: int) -> str:
        return f"place {rank[row]} of user {raw_text(user[row])}"

    return Table(pd.concat(columns, axis=1, keys=names), str(cells.name), row_name)


def rows_of_lists(users: Any, lists: Sequence[Any]) -> pd.DataFrame:
    """Return a row for each item of the lists of users: columns ``user``, ``item`` and ``rank``, from 1."""
    row_of = np.repeat(np.arange(len(lists)), np.fromiter(map(len, lists), np.int64, len(lists)))
    columns = {
        "user": pd.Series(users).iloc[row_of].reset_index(drop=True),
        "item": pd.Series(_flat(lists)),
        "rank": 1 + position_in_row(row_of, len(lists)),
    }
    return pd.DataFrame(columns)


def _flat(items: Sequence[Any]) -> Any:
    if all(isinstance(cell, np.ndarray) and cell.dtype.kind == "i" for cell in items):
        return np.concatenate(items)
    # Arrays of several types would be converted to one that holds them all: text, for example.
    return list(chain.from_iterable(c.tolist() if isinstance(c, np.ndarray) else c for c in items))


def is_list(cell: Any) -> bool:
    """Return whether a cell of a table is a list of items."""
    return isinstance(cell, list | tuple) or (isinstance(cell, np.ndarray) and cell.ndim == 1)


def _shown(value: object) -> str:
    plain = value.item() if isinstance(value, np.generic) else value
    return "an empty cell" if plain is None else f"{reprlib.repr(plain)} ({type(plain).__name__})"
