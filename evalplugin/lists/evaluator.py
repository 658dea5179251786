"""``Evaluator``: scores of the lists of many systems on a truth that is bound once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evalplugin.data.vocabulary import encode
from evalplugin.files import Format
from evalplugin.lists.catalogue import Catalogue, refuse_repeated
from evalplugin.lists.columns import ListColumns, PairColumns, ScoreRequest, check_same_kinds
from evalplugin.lists.folds import by_fold
from evalplugin.lists.inputs import open_sources, rows_named
from evalplugin.lists.scores import ListScores, specs_of
from evalplugin.lists.scoring import Scoring, need_catalogue, refuse_other_ids
from evalplugin.lists.spark.frames import check_frames, is_spark, score_frames
from evalplugin.metrics import MetricSpec
from evalplugin.metrics.relevance import Relevance
from evalplugin.metrics.scoring import check_request


class Evaluator:
    """Scores of the lists of many systems on one truth, to the last bit those of ``evalplugin.score``.

    The truth and the train data are read, checked, encoded and sorted once. ``score`` changes nothing, so that several
    threads may call it at the same time.

    Args:
        truth, metrics, train, threshold: As for ``evalplugin.score``.
        user, item, rank, score, rating, truth_user, truth_item, query: Names of columns, of all lists too.
        format: Of files, of all lists too; auto: by their names.

    Raises:
        DataError: A truth or train data that is missing or breaks a rule; train data that a metric needs.
        ParameterError, UnknownNameError: A name that means no metric.

    >>> import pandas as pd, evalplugin
    >>> truth = pd.DataFrame({"user": [1, 2], "item": ["b", "c"]})
    >>> evaluator = evalplugin.Evaluator(truth, ["rr"])
    >>> lists = pd.DataFrame({"user": [1, 1, 2, 2], "item": ["a", "b", "c", "a"], "rank": [1, 2, 1, 2]})
    >>> evaluator.score(lists)
    ListScores(rr=0.75)
    >>> evaluator.score(lists.assign(rank=[2, 1, 1, 2]))
    ListScores(rr=1)
    """

    def __init__(
        self,
        truth: Any,
        metrics: Sequence[str | MetricSpec],
        *,
        train: Any = None,
        threshold: float | None = None,
        user: str = "user",
        item: str = "item",
        rank: str | None = None,
        score: str | None = None,
        rating: str | None = None,
        truth_user: str | None = None,
        truth_item: str | None = None,
        query: str | None = None,
        format: Format = "auto",
    ) -> None:
        """Read and check truth and train data."""
        columns = ListColumns(user, item, rank, score, rating, truth_user, truth_item, query)
        specs = specs_of(metrics)
        sources = open_sources({"truth": truth, "train": train}, format=format)
        request = ScoreRequest(specs, Relevance.starting_at(threshold), sources["train"], columns)
        check_request(specs, train is not None)
        by_fold({"truth": sources["truth"]}, columns, option="an Evaluator")
        self._request, self._format, self._truth_type = request, format, type(truth)
        self._frame = truth if is_spark(truth) else None
        if self._frame is not None:
            return
        with rows_named(None, sources["truth"], request):
            pairs = PairColumns.read_all(sources["truth"], "truth", columns)
            check_same_kinds(truth=pairs, train=request.history)
            users, (user_code,) = encode([pairs.user])
            if request.unit == "query":
                refuse_other_ids(users, {"truth": pairs.user})
            items, (item_code,) = encode([pairs.item])
            refuse_repeated("truth", user_code, item_code, users, items)
            self._catalogue = Catalogue.of([pairs], request.history) if need_catalogue(specs) else None
        # A copy: the table itself is not kept, and may change.
        self._truth = pairs.rows(np.arange(len(pairs.user))).without_table()
        self._request = request.for_workers

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(spec.name for spec in self._request.specs)})"

    def score(self, lists: Any) -> ListScores:
        """Return the scores of lists, which are read into memory at once.

        Args:
            lists: As for ``evalplugin.score``: a table or files; a Spark DataFrame where the truth is one.

        Raises:
            DataError: No rows, a missing column or id, ranks or scores that break a rule, an item twice in a list,
                ids that are integers in the lists and text in the truth.
            EngineError: As for ``evalplugin.score``, of Spark.
        """
        if self._frame is not None or is_spark(lists):
            check_frames({"lists": type(lists), "truth": self._truth_type})
            return score_frames(lists, self._frame, self._request)
        source = open_sources({"lists": lists}, format=self._format)["lists"]
        by_fold({"lists": source}, self._request.columns, option="an Evaluator")
        with rows_named(source, None, self._request):
            pairs = PairColumns.read_all(source, "lists", self._request.columns)
            check_same_kinds(lists=pairs, truth=self._truth)
            catalogue = None if self._catalogue is None else self._catalogue.including(pairs)
            return ListScores(Scoring(self._request, catalogue).state(pairs, self._truth).scores())
