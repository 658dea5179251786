"""Scoring files of lists from other systems: per-user scores, another library's numbers, an MLflow run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from evalplugin.base.errors import DataError
from evalplugin.data import Interactions
from evalplugin.data.queries import Unit
from evalplugin.files import Format
from evalplugin.files.outputs import refuse_input
from evalplugin.lists.catalogue import interactions_alone
from evalplugin.lists.columns import ListColumns, PairColumns, Role, ScoreRequest
from evalplugin.lists.folds import by_fold
from evalplugin.lists.inputs import TruthFormat, merge_events, open_sources, rows_named, score_lists
from evalplugin.lists.output import check_output, write_per_user
from evalplugin.lists.scores import ListScores
from evalplugin.lists.scoring import top_n_on
from evalplugin.metrics import MetricSpec
from evalplugin.metrics.relevance import Relevance


@dataclass(frozen=True)
class Options:
    """The options of the command line."""

    lists: str
    truth: str
    metrics: Sequence[str]
    train: str | None
    pool: str | None
    relevance: Relevance
    out: str | Path | None  # a URI, or a file of this machine
    format: Format
    truth_format: TruthFormat
    duplicates: Literal["error", "keep"]  # of pairs of truth and train data; keep: rows are events
    text_ids: bool
    memory: str | None
    partitioned: bool
    engine: str | None
    columns: ListColumns
    for_log: bool  # curves over the cutoff are computed too

    @property
    def unit(self) -> Unit:
        """What has a list: a user, or a query."""
        return self.columns.unit

    @cached_property
    def sources(self) -> Mapping[Role, Any]:
        """The files, located, but not read; None for train data that is not given."""
        paths: dict[Role, Any] = {
            "lists": self.lists,
            "truth": self.truth,
            "train": self.train,
            "pool": self.pool,
        }
        sources = open_sources(
            paths, format=self.format, truth_format=self.truth_format, text_ids=self.text_ids
        )
        if self.duplicates == "keep":
            in_partitions = bool(self.memory or self.partitioned or self.engine)
            sources = merge_events(sources, self.columns, in_partitions=in_partitions)
        return sources

    def request(self, specs: Sequence[MetricSpec]) -> ScoreRequest:
        """Return the request of a score of some metrics."""
        return ScoreRequest(
            specs,
            self.relevance,
            self.sources["train"],
            self.columns,
            curves=self.for_log,
            pool=self.sources["pool"],
        )

    def data(self) -> Iterator[tuple[Interactions | None, Interactions]]:
        """Yield the train data and the truth of each fold, each read alone."""

        def read(role: Role, source: Any) -> Interactions:
            return interactions_alone(PairColumns.read_all(source, role, self.columns))

        for fold in by_fold(self.sources, self.columns):
            train = fold["train"]
            yield None if train is None else read("train", train), read("truth", fold["truth"])


def names_of(files: Sequence[str]) -> list[str]:
    """Return the names of lists: of their files without the suffix, or the paths where two files are called the same.

    Raises:
        DataError: A path that is given twice.
    """
    if twice := [file for file in files if files.count(file) > 1]:
        raise DataError(f"--lists: {twice[0]} is given twice: name each system's lists once")
    stems = [Path(file).stem for file in files]
    return stems if len(set(stems)) == len(stems) else list(files)


def score(options: Options, specs: Sequence[MetricSpec], report: Callable[[str], None]) -> ListScores:
    """Return the scores by some metrics, after writing the file of per-user scores where the options name one.

    Raises:
        EvalpluginError: Options or files that break a rule.
    """
    if options.out is not None:
        refuse_input(options.out, [options.lists, options.truth, options.train, options.pool], "*.parquet")
        check_output(options.out)
    scores = score_lists(
        options.sources["lists"],
        options.sources["truth"],
        options.request(specs),
        memory=options.memory,
        partitioned=options.partitioned,
        engine=options.engine,
        report=report,
    )
    if options.out is not None:
        write_per_user(scores.scores, options.out)
    return scores


def score_as(options: Options, library: str) -> dict[str, float]:
    """Return the numbers that another library prints for its own metrics, by its names.

    Raises:
        UnknownNameError: No profile of that library, or no such metric in it.
        DataError: Files that break a rule; per-user scores or parts, which a library's conventions do not have.
    """
    from evalplugin.lists.profiles import profile

    conventions = profile(library)
    unused = {
        "--pool": options.pool,
        "--out": options.out,
        "--log": options.for_log,
        "--memory": options.memory,
        "--partitioned": options.partitioned,
        "--engine": options.engine,
        "--query": options.unit == "query",
    }
    for option, value in unused.items():
        if value:
            raise DataError(f"--as reproduces the means that a library prints; {option} does not go with it")
    if not options.metrics:
        raise DataError(f"no metric is asked for; {library} has {', '.join(conventions.metrics)}")
    for name in options.metrics:
        conventions.metric(name)
    sources, request = options.sources, options.request(())
    by_fold(sources, options.columns, option="--as")
    with rows_named(sources["lists"], sources["truth"], request):
        lists, truth, train = top_n_on(request.read(sources["lists"], sources["truth"]))
    return conventions.score(lists, truth, options.metrics, train=train, relevance=options.relevance)


def log(
    options: Options,
    scores: ListScores,
    specs: Sequence[MetricSpec],
    *,
    name: str,
    experiment: str,
    tracking_uri: str | None,
) -> dict[str, str]:
    """Log the scores as an MLflow run; return links to it by label.

    Args:
        options: The options of the command line.
        scores, specs: The scores and their metrics.
        name: Name of the run.
        experiment: Name of the MLflow experiment.
        tracking_uri: The store; None: MLFLOW_TRACKING_URI, or else ``sqlite:///mlflow.db``.
    """
    from evalplugin.tracking.write.lists import ScoredLists, log_lists

    asked = {
        "lists": options.lists,
        "truth": options.truth,
        "train": options.train,
        "pool": options.pool,
        "metrics": [spec.name for spec in specs],
        "threshold": options.relevance.threshold,
        "input_format": options.format,
        "truth_format": None if options.truth_format == "auto" else options.truth_format,
        "unit": None if options.unit == "user" else options.unit,
        "duplicates": None if options.duplicates == "error" else options.duplicates,
        "columns": {key: value for key, value in vars(options.columns).items() if value is not None},
    }
    given = {key: value for key, value in asked.items() if value is not None}
    lists = ScoredLists(
        name=name,
        scores=scores.scores,
        metrics=specs,
        relevance=options.relevance,
        folds=tuple(options.data()),
        fold_means=scores.fold_means,
        asked=given,
        origin="score",
        dataset=options.truth,
        data={key: given[key] for key in ("lists", "truth", "train", "pool") if key in given},
    )
    return log_lists(lists, experiment=experiment, tracking_uri=tracking_uri)
