"""Scorers for ``mlflow.genai.evaluate``: retrieved or recommended lists, by our metrics.

**The list** of a row is its ``outputs``: ids, best first, or documents (dicts, or MLflow's ``Document``) with
``doc_uri``, ``id`` or ``item``, the first of these, in their ``metadata`` too. For other outputs, such as an answer, it
is what the outermost RETRIEVER spans of the trace returned, one after another. Documents with the same id are passages
of one document, which stands where the first does.

**What is relevant** is the first of ``expected_retrieved_context`` (MLflow's name for expected documents),
``expected_ids`` and ``relevant`` in the ``expectations``: a list as above, or a dict of gains by id. Ids are text or
integers, compared as text, since keys of JSON are text.

Values are those of ``evalplugin.score``. A row without a relevant item is undefined: it gets no feedback and is not in
the mean, and the metric ``NAME/defined`` is the number of rows that are. MLflow reports what cannot be read as an error
of its row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from mlflow.entities import Document, Span, SpanType, Trace
from mlflow.genai.scorers import Scorer

from evalplugin.base.errors import DataError
from evalplugin.base.text import shorten
from evalplugin.lists.evaluation import is_list
from evalplugin.metrics import evaluate, is_overall, parse
from evalplugin.metrics.relevance import Relevance
from evalplugin.tracking.names import metric_name

_ID_KEYS = ("doc_uri", "id", "item")
_TRUTH_KEYS = ("expected_retrieved_context", "expected_ids", "relevant")
_IDS = "a list of ids (text or integers), or of documents with doc_uri, id or item"


class MetricScorer(Scorer):
    """A scorer by one metric; ``metric`` makes it.

    ``metric``: the canonical name. ``threshold``: gains from it on are relevant; None: gains above 0.
    """

    metric: str
    threshold: float | None = None

    def __call__(  # type: ignore[override]  # MLflow passes the arguments that are named
        self,
        *,
        outputs: Any = None,
        expectations: Mapping[str, Any] | None = None,
        trace: Trace | None = None,
    ) -> float | None:
        """Return the value of a row; None: it is undefined.

        Raises:
            DataError: There is no list, nothing says what is relevant, or an id or a gain breaks a rule.
        """
        truth, listed = _truth(expectations or {}, self.threshold), _listed(outputs, trace)
        (value,) = evaluate(self.metric, lists=[listed], truth=[truth], threshold=self.threshold)
        return None if math.isnan(value) else value


def metric(name: str, *, threshold: float | None = None) -> MetricScorer:
    """Return a scorer by any metric of lists and truth alone.

    Args:
        name: Such as ``ndcg(gain=exp2)@10``. A metric that takes a cutoff must name it.
        threshold: Gains from it on are relevant; None: gains above 0. The gain stays as it is.

    Raises:
        DataError: The metric needs more than a list and what is relevant, or lacks its cutoff.
        ParameterError, UnknownNameError: A name that means no metric.

    >>> from evalplugin.scorers import metric
    >>> metric("rbp(p=0.5)@2")(outputs=["a", "b", "c"], expectations={"relevant": ["a", "b"]})
    0.75
    """
    spec = parse(name)
    if is_overall(spec.metric):
        raise DataError(f"metric {spec.name} is one number for all lists together; a scorer has one row's")
    if spec.needs:
        needs = ", ".join(spec.needs)
        raise DataError(f"metric {spec.name} needs more than a list and what is relevant: {needs}")
    if spec.k is None and spec.metric.takes_k:
        raise DataError(
            f"metric {spec.name} needs a cutoff, such as {spec.at(10).name}: without one it depends on the longest "
            f"list, and a scorer has one row's"
        )
    lowest = Relevance.starting_at(threshold).threshold
    return MetricScorer(
        # MLflow averages scorers of one name together.
        name=metric_name(spec.name) + ("" if lowest is None else f"_threshold_{lowest:g}"),
        description=f"{spec.name} of the retrieved or recommended list, by evalplugin",
        aggregations=["mean", defined],
        metric=spec.name,
        threshold=lowest,
    )


def ndcg(k: int = 10, *, threshold: float | None = None) -> MetricScorer:
    """Return the scorer by ``ndcg@k``."""
    return metric(f"ndcg@{k}", threshold=threshold)


def recall(k: int = 10, *, threshold: float | None = None) -> MetricScorer:
    """Return the scorer by ``recall@k``."""
    return metric(f"recall@{k}", threshold=threshold)


def precision(k: int = 10, *, threshold: float | None = None) -> MetricScorer:
    """Return the scorer by ``precision@k``."""
    return metric(f"precision@{k}", threshold=threshold)


def rr(k: int = 10, *, threshold: float | None = None) -> MetricScorer:
    """Return the scorer by ``rr@k``."""
    return metric(f"rr@{k}", threshold=threshold)


def ap(k: int = 10, *, threshold: float | None = None) -> MetricScorer:
    """Return the scorer by ``ap@k``."""
    return metric(f"ap@{k}", threshold=threshold)


def hit(k: int = 10, *, threshold: float | None = None) -> MetricScorer:
    """Return the scorer by ``hit@k``."""
    return metric(f"hit@{k}", threshold=threshold)


def defined(values: Sequence[float]) -> float:
    """Return the number of rows with a value, as an aggregation of MLflow."""
    return float(len(values))


def _listed(outputs: Any, trace: Trace | None) -> list[str]:
    """Return the ids of the list of a row, best first."""
    if (ids := _ids(outputs, "outputs")) is not None:
        return ids
    spans = [] if trace is None else _retrievals(trace)
    if not spans:
        raise DataError(
            f"outputs must be {_IDS}, best first, or the trace must have a RETRIEVER span; there is none, and outputs "
            f"are {_shown(outputs)}"
        )
    found: dict[str, None] = {}
    for span in spans:
        where = f"RETRIEVER span {span.name!r}"
        if (ids := _ids(span.outputs or [], where)) is None:
            raise DataError(f"{where}: its outputs must be {_IDS}, not {_shown(span.outputs)}")
        found |= dict.fromkeys(ids)
    return [*found]


def _retrievals(trace: Trace) -> list[Span]:
    """Return the RETRIEVER spans of a trace that are within no other one, in the order of their starts."""
    every = {span.span_id: span for span in trace.data.spans}

    def is_inner(span: Span) -> bool:
        above = every.get(span.parent_id or "")
        return above is not None and (above.span_type == SpanType.RETRIEVER or is_inner(above))

    outer = [s for s in every.values() if s.span_type == SpanType.RETRIEVER and not is_inner(s)]
    return sorted(outer, key=lambda span: span.start_time_ns)


def _truth(expectations: Mapping[str, Any], threshold: float | None) -> dict[str, float]:
    """Return the gain of each expected item by its id, 1 where none is given."""
    key = next((key for key in _TRUTH_KEYS if key in expectations), None)
    if key is None:
        given = ", ".join(map(str, expectations)) or "nothing"
        raise DataError(f"expectations must have one of {', '.join(_TRUTH_KEYS)}, and have {given}")
    values, where = expectations[key], f"expectations: {key}"
    graded = isinstance(values, Mapping)
    if (ids := _ids([*values] if graded else values, where)) is None:
        raise DataError(f"{where} must be {_IDS}, or a dict of gains by id, not {_shown(values)}")
    if not graded:
        if ids and threshold is not None:
            raise DataError(
                f"threshold={threshold:g} is for gains: {where} must be a dict of gains by id, not a list"
            )
        return dict.fromkeys(ids, 1.0)
    for item, gain in values.items():
        if not isinstance(gain, Real) or not math.isfinite(gain):
            raise DataError(f"{where}: the gain of {item!r} must be a finite number, not {_shown(gain)}")
    return dict(zip(ids, map(float, values.values()), strict=True))


def _ids(values: Any, where: str) -> list[str] | None:
    """Return the ids of a list, of documents each once; None: it is no list, or has values without an id.

    Raises:
        DataError: An id that is no document's stands twice.
    """
    if not is_list(values):
        return None
    ids = [item for value in values if (item := _id(value)) is not None]
    if len(ids) < len(values):
        return None
    distinct = dict.fromkeys(ids)
    if len(distinct) < len(ids) and not all(isinstance(value, Mapping | Document) for value in values):
        twice = next(item for item in distinct if ids.count(item) > 1)
        raise DataError(f"{where}: the id {twice!r} stands twice")
    return [*distinct]


def _id(value: Any) -> str | None:
    if isinstance(value, Document):
        value = value.to_dict()
    if isinstance(value, Mapping):
        fields = {**(value.get("metadata") or {}), **{k: v for k, v in value.items() if v is not None}}
        value = next((fields[key] for key in _ID_KEYS if key in fields), None)
    is_id = isinstance(value, str | int | np.integer) and not isinstance(value, bool)
    return str(value) if is_id else None


def _shown(value: object) -> str:
    return f"{shorten(repr(value), 60)} ({type(value).__name__})"
