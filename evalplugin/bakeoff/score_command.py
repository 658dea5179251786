"""Scoring files of lists from other systems: per-user scores, another library's numbers, an MLflow run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from evalplugin.base.errors import DataError
from evalplugin.data import Interactions
from evalplugin.files.outputs import refuse_input
from evalplugin.lists import ListColumns, ListScores, ScoreRequest, open_sources, score_lists, specs_of
from evalplugin.lists.catalogue import interactions_alone
from evalplugin.lists.columns import PairColumns, Role
from evalplugin.lists.files import Format
from evalplugin.lists.inputs import lists_and_truth
from evalplugin.lists.output import check_output, write_per_user
from evalplugin.metrics import MetricSpec

__all__ = ["Options", "log", "score", "score_as"]


@dataclass(frozen=True)
class Options:
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

    def open(self, *roles: Role) -> dict[Role, Any]:
        """Return the files of some roles, located, but not read; None for train data that is not given."""
        paths = {role: getattr(self, role) for role in roles}
        return open_sources(paths, format=self.format, text_ids=self.text_ids)

    def request(self, specs: Sequence[MetricSpec]) -> ScoreRequest:
        """Return the request of a score of some metrics."""
        train = self.open("train")["train"]
        return ScoreRequest(specs, self.threshold, train, self.columns, curves=self.for_log)


def score(options: Options, report: Callable[[str], None]) -> tuple[ListScores, list[MetricSpec]]:
    """Return the scores, after writing the file of per-user scores where the options name one.

    Raises:
        EvalpluginError: Options or files that break a rule.
    """
    specs = specs_of(options.metrics)
    if options.out is not None:
        refuse_input(options.out, [options.lists, options.truth, options.train], "*.parquet")
        check_output(options.out)
    files = options.open("lists", "truth")
    scores = score_lists(
        files["lists"],
        files["truth"],
        options.request(specs),
        memory=options.memory,
        partitioned=options.partitioned,
        engine=options.engine,
        report=report,
    )
    if options.out is not None:
        write_per_user(scores.scores, options.out)
    return scores, specs


def score_as(options: Options, library: str) -> dict[str, float]:
    """Return the numbers that another library prints for its own metrics, by its names.

    Raises:
        UnknownNameError: No profile of that library, or no such metric in it.
        DataError: Files that break a rule; per-user scores or parts, which a library's conventions do not have.
    """
    from evalplugin.lists.profiles import profile

    conventions = profile(library)
    unused = {
        "--out": options.out,
        "--log": options.for_log,
        "--memory": options.memory,
        "--partitioned": options.partitioned,
        "--engine": options.engine,
    }
    for option, value in unused.items():
        if value:
            raise DataError(f"--as reproduces the means that a library prints; {option} does not go with it")
    if not options.metrics:
        raise DataError(f"no metric is asked for; {library} has {', '.join(conventions.metrics)}")
    for name in options.metrics:
        conventions.metric(name)
    files = options.open("lists", "truth")
    lists, truth, train = lists_and_truth(files["lists"], files["truth"], options.request(()))
    return conventions.score(lists, truth, options.metrics, train=train, threshold=options.threshold)


def log(
    options: Options,
    scores: ListScores,
    specs: Sequence[MetricSpec],
    *,
    name: str,
    experiment: str,
    tracking_uri: str | None,
) -> dict[str, str]:
    """Log the scores as an MLflow run; return links to it by label."""
    from evalplugin.tracking.write.lists import ScoredLists, log_lists

    asked = {
        "lists": options.lists,
        "truth": options.truth,
        "train": options.train,
        "metrics": [spec.name for spec in specs],
        "threshold": options.threshold,
        "input_format": options.format,
        "columns": {key: value for key, value in vars(options.columns).items() if value is not None},
    }
    given = {key: value for key, value in asked.items() if value is not None}
    lists = ScoredLists(
        name=name,
        scores=scores.scores,
        metrics=specs,
        threshold=options.threshold,
        truth=_interactions(options, "truth"),
        train=None if options.train is None else _interactions(options, "train"),
        asked=given,
        origin="score",
        dataset=options.truth,
        data={key: given[key] for key in ("lists", "truth", "train") if key in given},
    )
    return log_lists(lists, experiment=experiment, tracking_uri=tracking_uri)


def _interactions(options: Options, role: Literal["truth", "train"]) -> Interactions:
    return interactions_alone(PairColumns.read_all(options.open(role)[role], role, options.columns))
