"""Scoring files of lists from other systems: per-user scores, another library's numbers, an MLflow run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evalplugin.base.errors import DataError
from evalplugin.base.outputs import refuse_input
from evalplugin.data import Interactions
from evalplugin.execution.tasks import curve_ks
from evalplugin.lists import ListColumns, ListScores, score_lists, specs_of
from evalplugin.lists.files import Format
from evalplugin.lists.inputs import read_interactions
from evalplugin.lists.output import check_output, write_per_user
from evalplugin.metrics import MetricSpec

__all__ = ["Request", "log", "score", "score_as"]


@dataclass(frozen=True)
class Request:
    """The options of the command line."""

    lists: str
    truth: str
    metrics: Sequence[str]
    train: str | None
    threshold: float | None
    out: str | Path | None  # a URI, or a file of this machine
    format: Format
    text_ids: bool
    memory: str | None
    partitioned: bool
    engine: str | None
    columns: ListColumns
    for_log: bool  # curves over the cutoff are computed too


def score(request: Request, report: Callable[[str], None]) -> tuple[ListScores, list[MetricSpec]]:
    """Return the scores, after writing the file of per-user scores where the request names one.

    Raises:
        EvalpluginError: Options or files that break a rule.
    """
    specs = specs_of(request.metrics)
    if request.out is not None:
        refuse_input(request.out, [request.lists, request.truth, request.train], "*.parquet")
        check_output(request.out)
    scores = score_lists(
        request.lists,
        request.truth,
        specs,
        train=request.train,
        threshold=request.threshold,
        columns=request.columns,
        format=request.format,
        text_ids=request.text_ids,
        memory=request.memory,
        partitioned=request.partitioned,
        engine=request.engine,
        curve_ks=(lambda n: curve_ks(n, specs)) if request.for_log else None,
        report=report,
    )
    if request.out is not None:
        write_per_user(scores.scores, request.out)
    return scores, specs


def score_as(request: Request, library: str) -> dict[str, float]:
    """Return the numbers that another library prints for its own metrics, by its names.

    Raises:
        UnknownNameError: No profile of that library, or no such metric in it.
        DataError: Files that break a rule; per-user scores or parts, which a library's conventions do not have.
    """
    from evalplugin.lists.inputs import lists_and_truth
    from evalplugin.lists.profiles import profile

    conventions = profile(library)
    unused = {
        "--out": request.out,
        "--log": request.for_log,
        "--memory": request.memory,
        "--partitioned": request.partitioned,
        "--engine": request.engine,
    }
    for option, value in unused.items():
        if value:
            raise DataError(f"--as reproduces the means that a library prints; {option} does not go with it")
    if not request.metrics:
        raise DataError(f"no metric is asked for; {library} has {', '.join(conventions.metrics)}")
    for name in request.metrics:
        conventions.metric(name)
    lists, truth, train = lists_and_truth(
        request.lists,
        request.truth,
        request.train,
        request.columns,
        format=request.format,
        text_ids=request.text_ids,
    )
    return conventions.score(lists, truth, request.metrics, train=train, threshold=request.threshold)


def log(
    request: Request,
    scores: ListScores,
    specs: Sequence[MetricSpec],
    *,
    name: str,
    experiment: str,
    tracking_uri: str | None,
) -> dict[str, str]:
    """Log the scores as an MLflow run; return links to it by label."""
    from evalplugin.tracking.write.lists import ScoredLists, log_lists

    options = {
        "lists": request.lists,
        "truth": request.truth,
        "train": request.train,
        "metrics": [spec.name for spec in specs],
        "threshold": request.threshold,
        "input_format": request.format,
        "columns": {key: value for key, value in vars(request.columns).items() if value is not None},
    }
    given = {key: value for key, value in options.items() if value is not None}
    lists = ScoredLists(
        name=name,
        scores=scores.scores,
        metrics=specs,
        threshold=request.threshold,
        truth=_interactions(request, request.truth, "truth"),
        train=None if request.train is None else _interactions(request, request.train, "train"),
        asked=given,
        origin="score",
        dataset=request.truth,
        data={key: given[key] for key in ("lists", "truth", "train") if key in given},
    )
    return log_lists(lists, experiment=experiment, tracking_uri=tracking_uri)


def _interactions(request: Request, path: str, role: Literal["truth", "train"]) -> Interactions:
    return read_interactions(path, role, request.columns, format=request.format, text_ids=request.text_ids)
