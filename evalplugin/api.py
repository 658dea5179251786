"""The public functions ``run``, ``compare``, ``compare_scores``, ``history`` and ``score``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from evalplugin.base.errors import DataError
from evalplugin.base.libraries import pd
from evalplugin.data.queries import session_ids
from evalplugin.files import Format
from evalplugin.lists.columns import ListColumns
from evalplugin.lists.files import TruthFormat
from evalplugin.lists.job import ListJob
from evalplugin.lists.scores import ListScores, specs_of
from evalplugin.lists.spark.frames import is_spark
from evalplugin.metrics import is_overall
from evalplugin.metrics.relevance import Relevance

if TYPE_CHECKING:
    from evalplugin.comparison.comparison import Comparison
    from evalplugin.comparison.contest import Contest
    from evalplugin.comparison.statistics.paired import Test
    from evalplugin.features.base import Bakeoff
    from evalplugin.features.history.history import History
    from evalplugin.metrics import MetricSpec
    from evalplugin.report.notebook import Comparisons
    from evalplugin.report.sections import Section


def run(
    config: str | Path | Mapping[str, Any],
    *,
    overrides: Sequence[str] = (),
    tracking_uri: str | None = None,
    experiment: str | None = None,
    data_home: str | Path | None = None,
    workers: int | None = None,
    engine: str | None = None,
    resume: bool = False,
    only: str | Sequence[str] = (),
    fresh: bool = False,
) -> Bakeoff:
    """Return a bake-off that has run: ``.models`` with their scores, ``.comparisons``, and ``.links`` into MLflow.

    Args:
        config: A YAML file, or the same as a mapping, in which a dataset of type ``dataframe`` has a ``frame``: a
            table of pandas, polars or Arrow.
        overrides: Assignments such as ``models.0.params.k=20``.
        tracking_uri, experiment: Win over the config's.
        data_home: Folder of downloaded datasets; None: EVALPLUGIN_DATA_HOME.
        workers: Tasks at a time; None: as in the config.
        engine: Where tasks run, such as ``ray``; None: as in the config.
        resume: Continue the newest bake-off of this config that was cut off, if any.
        only: Names of models, or one: no other is run. A gate decides nothing then.
        fresh: Compute all anew, and take nothing from the cache.

    Raises:
        ConfigError: All mistakes of the config, or of ``only``.
        DataError: Data that is missing or breaks a rule, or fewer than one worker.
        EngineError: The engine cannot run the tasks.
        TrackingError: The tracking store cannot be reached.
    """
    from evalplugin.bakeoff.flow import run_bakeoff
    from evalplugin.execution.observer import python_observer
    from evalplugin.features.config import load
    from evalplugin.features.notifications.feature import tell_of_failure
    from evalplugin.workspace import Workspace

    home = data_home if data_home is not None else os.environ.get("EVALPLUGIN_DATA_HOME")
    home = Path(home) if home is not None else None
    source = config if isinstance(config, Mapping) else Path(config)
    observer = python_observer()
    try:
        workspace = Workspace.open(
            load(source, overrides=overrides, data_home=home, engine=engine),
            tracking_uri=tracking_uri,
            experiment=experiment,
            observer=observer,
            mode="resume" if resume else "fresh" if fresh else "run",
            data_home=home,
            only=_names(only),
        )
    except Exception as error:
        tell_of_failure(error, source, observer, overrides=overrides, experiment=experiment)
        raise
    if workers is not None and workers < 1:
        raise DataError(f"workers: must be 1 or more, not {workers}")
    if resume and fresh:
        raise DataError("a bake-off is either continued (resume) or computed anew (fresh), not both")
    return run_bakeoff(workspace, workers=workers)


def _names(given: str | Sequence[str]) -> Sequence[str]:
    return [given] if isinstance(given, str) else given


def _compared(
    contest: Contest,
    pairs: Literal["baseline", "all"] | None,
    *,
    tests: Sequence[Test],
    level: float,
    intervals: Literal["t", "bootstrap"],
) -> Comparison:
    """Return the comparison of a contest; ``pairs``: None: with the baseline, if there is one."""
    from evalplugin.comparison.comparison import compare

    if pairs == "baseline" and contest.baseline is None:
        models = ", ".join(model.model for model in contest.models)
        raise DataError(f"pairs: baseline: no baseline is named (baseline); models: {models}")
    return compare(contest, pairs=pairs or contest.pairing, level=level, intervals=intervals, tests=tests)


def compare(
    *sources: Bakeoff | str,
    bakeoff: str | None = None,
    experiment: str | None = None,
    tracking_uri: str | None = None,
    baseline: str | None = None,
    primary: str | None = None,
    pairs: Literal["baseline", "all"] | None = None,
    tests: Sequence[Test] = (),
    level: float = 0.95,
    intervals: Literal["t", "bootstrap"] = "t",
    dataset: str | None = None,
    split: str | None = None,
) -> Comparisons:
    """Return a comparison of models: ``.to_frame()``, ``.plot()``, ``.to_html(path)``.

    Args:
        sources: A bake-off of ``evalplugin.run``, or ids or names of MLflow runs, or names of models (the latest run
            of each). None: the named bake-off or experiment, or else the latest bake-off.
        bakeoff: A bake-off's id, or ``latest``.
        experiment: By itself: the latest run of each model in this MLflow experiment.
        tracking_uri: The store.
        baseline: The model that the others are compared with; None: the bake-off's.
        primary: The metric that ranks; None: the bake-off's.
        pairs: Every model with the baseline, or all with each other; None: with the baseline, if there is one.
        tests: ``wilcoxon``, ``t``, beside the permutation test.
        level: Of intervals and marks.
        intervals: Of differences: Student's t, or the BCa bootstrap.
        dataset, split: The only ones to compare on; None: all.

    Raises:
        DataError: No such run, bake-off or experiment, or runs that cannot be compared.
        TrackingError: The store cannot be reached, or a run lacks logged files.
    """
    from functools import cache, partial

    from evalplugin.comparison.contest import with_choice
    from evalplugin.report.notebook import Comparisons

    runs = [source for source in sources if isinstance(source, str)]
    outcomes = [source for source in sources if not isinstance(source, str)]
    complete = None
    if outcomes:
        if len(sources) > 1 or any((bakeoff, experiment, tracking_uri, dataset, split)):
            raise DataError(
                "an outcome of evalplugin.run is compared by itself; runs in a store are named by ids or names"
            )
        (outcome,) = outcomes
        sections: Callable[[Sequence[Comparison]], Iterable[Section]] = outcome.sections
        contests = [with_choice(c.contest, baseline=baseline, primary=primary) for c in outcome.comparisons]
    else:
        from evalplugin.features.history.feature import past_around, trend_section
        from evalplugin.features.ranks.feature import rank_sections
        from evalplugin.tracking.read.contests import read_contests, with_lists

        contests = read_contests(
            tracking_uri, bakeoff=bakeoff, runs=runs, experiment=experiment, baseline=baseline, primary=primary,
            dataset=dataset, split=split,
        )  # fmt: skip
        run_ids = [
            model.run_id for contest in contests for model in contest.models if model.run_id is not None
        ]
        complete = partial(with_lists, tracking_uri=tracking_uri)
        past = cache(partial(past_around, run_ids, tracking_uri))

        def sections(comparisons: Sequence[Comparison]) -> Iterable[Section]:
            return (*rank_sections(comparisons), trend_section(past))

    comparisons = [_compared(c, pairs, tests=tests, level=level, intervals=intervals) for c in contests]
    return Comparisons(tuple(comparisons), sections, complete)


def compare_scores(
    scores: Any = None,
    *,
    unit: str | None = None,
    runs: str | Sequence[str] = (),
    tracking_uri: str | None = None,
    model: str | None = None,
    metric: str | None = None,
    value: str | Sequence[str] = (),
    wide: bool = False,
    cluster: str | None = None,
    segments: str | Sequence[str] = (),
    lower_is_better: str | Sequence[str] = (),
    baseline: str | None = None,
    primary: str | None = None,
    pairs: Literal["baseline", "all"] | None = None,
    tests: Sequence[Test] = (),
    level: float = 0.95,
    intervals: Literal["t", "bootstrap"] = "t",
    name: str | None = None,
    log: bool = False,
    experiment: str | None = None,
) -> Comparisons:
    """Return a comparison of models by a table of scores from any evaluation, as ``compare`` returns it.

    Models are ranked by the units that all of them have, such as questions; two are compared by those that both have.
    A model with fewer than half as many as another is not ranked.

    Args:
        scores: A table of pandas, polars or Arrow, or the path of a Parquet or CSV file.
        unit: Column of units.
        runs: In place of a table: ids of MLflow runs, one a model, of ``mlflow.models.evaluate`` (``unit`` is the
            column that names the input of a row) or ``mlflow.genai.evaluate`` (without ``unit``).
        tracking_uri: The store of ``runs`` and ``log``.
        model: Column of models' names.
        metric: Column of metrics' names; None: each column of scores is a metric.
        value: Column of scores, or several, a metric each; empty: ``score`` or ``value``. Of a wide table the name of
            its metric.
        wide: Each column that is not named here holds a model's scores.
        cluster: Column; units with the same value in it depend on each other.
        segments: Columns that divide the units into groups.
        lower_is_better: Metrics; ``rmse`` and the like are known.
        baseline: None: all are compared with each other.
        primary: The metric that ranks; None: the first.
        pairs, tests, level, intervals: As of ``compare``.
        name: Of the table in reports; None: that of its file.
        log: Whether to log to MLflow: the result has ``.links``.
        experiment: Of the log; None: ``scores``.

    Raises:
        DataError: A missing column, a score that is no number, a unit with two scores, fewer than two models.
        TrackingError: The store cannot be reached, or has no such run.

    >>> import pandas as pd, evalplugin
    >>> table = pd.DataFrame({"question": [1, 2, 3] * 2, "llm": ["a"] * 3 + ["b"] * 3, "score": [1, 0, 1, 0, 0, 1]})
    >>> compared = evalplugin.compare_scores(table, unit="question", model="llm")
    >>> [row.model for row in compared[0].models], compared[0].may_be_best
    (['a', 'b'], ('a', 'b'))
    """
    from evalplugin.lists.score_tables import ScoreColumns, read_scores
    from evalplugin.report.notebook import Comparisons

    if not log and experiment is not None:
        raise DataError("experiment goes with log=True, which logs the comparison")
    if not (log or runs) and tracking_uri is not None:
        raise DataError("tracking_uri goes with runs, or with log=True, which logs the comparison")
    table = str(scores) if isinstance(scores, str | Path) else type(scores).__name__
    asked = {
        "scores": None if scores is None else table, "runs": [*_names(runs)], "unit": unit, "model": model,
        "metric": metric, "value": [*_names(value)], "wide": wide, "cluster": cluster, "segments": [*_names(segments)],
        "lower_is_better": [*_names(lower_is_better)], "baseline": baseline, "primary": primary, "name": name,
    }  # fmt: skip
    if runs:
        if scores is not None or model is not None or metric is not None or wide:
            raise DataError(
                "runs have a table each, with a model and its metrics: name a table or runs, not both"
            )
        from evalplugin.tracking.read.evaluations import INPUTS, MODEL, read_evaluations

        others = [*([] if cluster is None else [cluster]), *_names(segments)]
        scores, shared = read_evaluations(_names(runs), unit=unit, others=others, tracking_uri=tracking_uri)
        unit, model, value = unit or INPUTS, MODEL, _names(value) or shared
        name = name or "evaluations"
    if scores is None or unit is None:
        raise DataError("name a table of scores and its column of units (unit), or runs")
    columns = ScoreColumns(unit, model, metric, tuple(_names(value)), wide, cluster, tuple(_names(segments)))
    contest = read_scores(
        scores,
        columns,
        lower_is_better=_names(lower_is_better),
        baseline=baseline,
        primary=primary,
        name=name,
    )
    links = None
    if log:
        from evalplugin.bakeoff.scores_log import log_scores

        named = {option: value for option, value in asked.items() if value}
        links = log_scores(contest, named, experiment=experiment, tracking_uri=tracking_uri)
    comparison = _compared(contest, pairs, tests=tests, level=level, intervals=intervals)
    return Comparisons((comparison,), links=links)


def history(
    experiment: str, *, metric: str | None = None, last: int = 30, tracking_uri: str | None = None
) -> History:
    """Return models over bake-offs: ``.to_frame()``, ``.trends``.

    Args:
        experiment: Name of the MLflow experiment.
        metric: Such as ``ndcg@10``; None: the primary metric of the newest bake-off.
        last: Bake-offs at most.
        tracking_uri: The store.

    Raises:
        DataError: No such experiment, or no bake-off with this metric.
        TrackingError: The store cannot be reached.
    """
    from evalplugin.features.history.feature import read_past
    from evalplugin.features.history.history import history_of

    return history_of(experiment, read_past(tracking_uri, experiment=experiment, last=last), metric)


# Keywords are those of the implementation.
@overload
def score(
    lists: Mapping[str, Any], truth: Any, metrics: Sequence[str | MetricSpec], **keywords: Any
) -> Comparisons: ...
@overload
def score(lists: Any, truth: Any, metrics: Sequence[str | MetricSpec], **keywords: Any) -> ListScores: ...
def score(  # type: ignore[misc]
    lists: Any,
    truth: Any,
    metrics: Sequence[str | MetricSpec],
    *,
    train: Any = None,
    pool: Any = None,
    threshold: float | None = None,
    columns: Mapping[str, str] | None = None,
    format: Format = "auto",
    truth_format: TruthFormat = "auto",
    duplicates: Literal["error", "keep"] = "error",
    memory: str | int | None = None,
    partitioned: bool = False,
    engine: str | Mapping[str, Any] | None = None,
) -> ListScores | Comparisons:
    """Return the scores of lists from any system: ``.per_user``, ``.means`` and ``.counts``.

    A user with relevant truth but without a list scores 0; one without relevant truth is undefined (NaN), counted,
    and left out of the means.

    Of a mapping, return the comparison of its systems, as ``compare`` does.

    With a column ``fold``, a user's score is the average over folds; ``.fold_means`` has the means of each. On a log,
    ``.notes`` has the values of policies that it cannot tell.

    Args:
        lists: A table of pandas, Arrow or polars: user, item, and a rank (1, 2, 3 ...; it wins) or a score
            (descending, equal ones by item id ascending). Or the path of a file, a folder of Parquet files, or a
            pattern. Or a DataFrame of Spark (PySpark 4 or later), which is scored there. Or a mapping of names to any
            of these, except Spark's: several systems, which are compared.
        truth: The held-out interactions: user, item and perhaps a rating (else 1); also files, or of Spark as the
            lists. Or a log of decisions, of ``evalplugin.impressions`` or a YAML file with the dataset ``impressions``:
            lists have a column ``decision`` or ``user``, and a rank, a score or a ``probability``.
        metrics: Names such as ``ndcg@10``.
        train: The train data, for metrics that need it; also files; an earlier log where the truth is a log.
        pool: Users and items that lists were chosen from, for ``pool_recall``; also files.
        threshold: Ratings from it on are relevant; None: ratings above 0 are. The gain stays the rating.
        columns: Other names of the columns ``user``, ``item``, ``rank``, ``score`` and ``rating``, such as ``{"user":
            "customer"}``; ``truth_user`` and ``truth_item`` where truth and train data differ. ``query`` in place of
            ``user`` is a column of texts SESSION:NUMBER, as of the split ``next_item``.
        format: Of files: ``csv``, ``parquet``, ``trec`` (ranked by the score); ``auto``: by their names. Or the tool
            that wrote a file or made a table: ``rectools``, ``lenskit``, ``recommenders``, ``warprec``, ``omnirec``.
        truth_format: The same of truth and train data, and ``adjacency``, ``recbole``, ``triples``, ``npz``; auto: by
            a name such as ``.inter``, else as the lists.
        duplicates: A pair that stands twice in the truth or the train data: refuse it, or ``keep`` all rows as
            events: the pair counts once, with the sum of the ratings, without ratings their number.
        memory: Such as ``2GB``, of each process: Parquet files that need more are partitioned by user on the disk,
            with the same results; None: everything is read at once.
        partitioned: Each Parquet file of the lists has all rows of its users, and is scored by itself, with the truth
            file of the same name if there is one.
        engine: Where partitions are scored: a name such as ``ray``, or a mapping as in a config; None: here.

    Raises:
        DataError: No rows, a missing column or id, ids of two types, ranks or scores that break a rule, a repeated
            item.
        EngineError: Spark is older than 4, or its workers lack this version of evalplugin.
        ParameterError, UnknownNameError: A name that means no metric.

    >>> import pandas as pd, evalplugin
    >>> lists = pd.DataFrame({"user": [1, 1, 2, 2], "item": ["a", "b", "c", "a"], "rank": [1, 2, 1, 2]})
    >>> truth = pd.DataFrame({"user": [1, 2], "item": ["b", "c"]})
    >>> evalplugin.score(lists, truth, ["rr", "hit@1"]).means
    {'rr': 0.75, 'hit@1': 0.5}
    """
    specs = specs_of(metrics)

    def job(of_system: Any) -> ListJob:
        return ListJob(
            of_system, truth, train, pool, ListColumns.of(columns or {}), Relevance.starting_at(threshold),
            format=format, truth_format=truth_format, duplicates=duplicates, memory=memory, partitioned=partitioned,
            engine=engine,
        )  # fmt: skip

    if not isinstance(lists, Mapping):
        return job(lists).score(specs)
    check_systems(lists, specs)
    return compare_lists({name: job(own).score(specs) for name, own in lists.items()})


def check_systems(lists: Mapping[str, Any], specs: Sequence[MetricSpec]) -> None:
    """Refuse, before anything is scored, lists of several systems that cannot be compared.

    Raises:
        DataError: Fewer than two systems, DataFrames of Spark, or metrics without a value for each user.
    """
    if len(lists) < 2:
        raise DataError(f"lists: a comparison takes two systems, and there are {len(lists)}")
    if any(map(is_spark, lists.values())):
        raise DataError("lists: Spark DataFrames of several systems are scored one by one")
    companions = {own.name for spec in specs for own in spec.metric.companions(spec.k)}
    if overall := [s.name for s in specs if is_overall(s.metric) and s.name not in companions]:
        raise DataError(
            f"{', '.join(overall)}: a number for all lists together has no differences by user: score the lists of "
            f"one system at a time, or leave it out"
        )


def compare_lists(scores: Mapping[str, ListScores], name: str = "lists") -> Comparisons:
    """Return the comparison of scored lists by the names of their systems, every two of them; ``name``: of the data."""
    from evalplugin.lists.score_tables import ScoreColumns, read_scores
    from evalplugin.report.notebook import Comparisons

    units = next(iter(scores.values())).scores.units
    unit = units.noun
    # Users without a relevant truth are in the lists of some systems alone.
    tables = [own.per_user.dropna(how="all").assign(system=system) for system, own in scores.items()]
    table, cluster = pd.concat(tables).rename_axis(unit).reset_index(), None
    if unit == "query":
        cluster = "session"
        table[cluster] = session_ids(table[unit].to_numpy())
    elif units.column is not None:
        cluster = units.column.name
        table[cluster] = np.array(units.column.labels)[units.column.of(table[unit].to_numpy())]
    columns = ScoreColumns(unit, "system", values=tuple(tables[0].columns[:-1]), cluster=cluster)
    # All metrics are ours, with more than their names.
    assumed = next(iter(scores.values())).assumed
    contest = replace(read_scores(table, columns, name=name), given={}, assumed=assumed)
    compared = _compared(contest, None, tests=(), level=0.95, intervals="t")
    return Comparisons((compared,))
