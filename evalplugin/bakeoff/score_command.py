"""What the command ``score`` does, between reading its options and printing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from evalplugin.base.errors import DataError
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
    """What was asked on the command line."""

    lists: str
    truth: str
    metrics: Sequence[str | MetricSpec]
    train: str | None = None
    threshold: float | None = None
    out: Path | None = None
    format: Format = "auto"
    text_ids: bool = False
    memory: str | None = None
    columns: ListColumns = field(default_factory=ListColumns)
    for_log: bool = False  # curves over the cutoff are computed too


def score(asked: Request, report: Callable[[str], None]) -> tuple[ListScores, list[MetricSpec]]:
    """Return the scores, after writing the file of per-user scores where one is asked for.

    Raises:
        EvalpluginError: Whatever is wrong with the options or the files.
    """
    specs = specs_of(asked.metrics)
    if asked.out is not None:
        check_output(asked.out)
    scores = score_lists(
        asked.lists,
        asked.truth,
        specs,
        train=asked.train,
        threshold=asked.threshold,
        columns=asked.columns,
        format=asked.format,
        text_ids=asked.text_ids,
        memory=asked.memory,
        curve_ks=lambda n: curve_ks(n, specs) if asked.for_log else (),
        report=report,
    )
    if asked.out is not None:
        write_per_user(scores.scores, asked.out)
    return scores, specs


def score_as(asked: Request, library: str) -> dict[str, float]:
    """Return the numbers that another library prints for its own metrics, by its names.

    Raises:
        UnknownNameError: No profile of that library, or no such metric there.
        DataError: Files that break a rule; per-user scores or parts, which a library's conventions do not have.
    """
    from evalplugin.lists.inputs import lists_and_truth
    from evalplugin.lists.profiles import profile

    conventions = profile(library)
    for option, value in (("--out", asked.out), ("--log", asked.for_log), ("--memory", asked.memory)):
        if value:
            raise DataError(f"--as reproduces the means that a library prints; {option} does not go with it")
    names = [str(name) for name in asked.metrics]
    if not names:
        raise DataError(f"no metric is asked for; {library} has {', '.join(conventions.metrics)}")
    for name in names:
        conventions.metric(name)
    lists, truth, train = lists_and_truth(
        asked.lists, asked.truth, asked.train, asked.columns, format=asked.format, text_ids=asked.text_ids
    )
    return conventions.score(lists, truth, names, train=train, threshold=asked.threshold)


def log(
    asked: Request,
    scores: ListScores,
    specs: Sequence[MetricSpec],
    *,
    name: str,
    experiment: str,
    tracking_uri: str | None,
) -> dict[str, str]:
    """Return where the new MLflow run can be looked at; see ``evalplugin.tracking.lists``."""
    from evalplugin.tracking.write.lists import ScoredLists, log_lists

    options = {
        "lists": asked.lists,
        "truth": asked.truth,
        "train": asked.train,
        "metrics": [spec.name for spec in specs],
        "threshold": asked.threshold,
        "input_format": asked.format,
        "columns": {key: value for key, value in vars(asked.columns).items() if value is not None},
    }
    given = {key: value for key, value in options.items() if value is not None}
    lists = ScoredLists(
        name=name,
        scores=scores.scores,
        metrics=specs,
        threshold=asked.threshold,
        truth=_interactions(asked, asked.truth, "truth"),
        train=None if asked.train is None else _interactions(asked, asked.train, "train"),
        asked=given,
        origin="score",
        dataset=asked.truth,
        data={key: given[key] for key in ("lists", "truth", "train") if key in given},
    )
    return log_lists(lists, experiment=experiment, tracking_uri=tracking_uri)


def _interactions(asked: Request, path: str, role: Literal["truth", "train"]) -> Interactions:
    return read_interactions(path, role, asked.columns, format=asked.format, text_ids=asked.text_ids)
