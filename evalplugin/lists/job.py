"""Lists of any system to score: their tables or files, read as the options say, in memory or in partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

from evalplugin.base.errors import DataError, EngineError
from evalplugin.base.libraries import pa
from evalplugin.base.units import bytes_of
from evalplugin.config.engines import ENGINES
from evalplugin.data.decisions import DECISION
from evalplugin.data.files import TableFiles
from evalplugin.data.queries import Unit
from evalplugin.data.tables import Table
from evalplugin.execution.engines import Engine
from evalplugin.execution.engines.executor import Executor
from evalplugin.execution.engines.local import Local
from evalplugin.files import Format
from evalplugin.lists.catalogue import Catalogue, interactions_alone
from evalplugin.lists.columns import (
    ListColumns,
    ListInput,
    PairColumns,
    Role,
    ScoreRequest,
    Sources,
    check_same_kinds,
)
from evalplugin.lists.files import TruthFormat, checked_formats, open_files
from evalplugin.lists.folds import by_fold
from evalplugin.lists.foreign import check_columns, columns_of
from evalplugin.lists.logs import Log, score_on_log
from evalplugin.lists.partitioned import partitions_within, score_files, score_partitioned, threads_for
from evalplugin.lists.scores import ListScores
from evalplugin.lists.scoring import Scoring, need_catalogue
from evalplugin.lists.spark.frames import check_frames, is_spark, score_frames
from evalplugin.metrics import MetricSpec
from evalplugin.metrics.relevance import ABOVE_0, Relevance
from evalplugin.metrics.scores import average_folds
from evalplugin.metrics.scoring import check_request


@dataclass(frozen=True, eq=False)
class ListJob:
    """Lists and their truth, as ``evalplugin.score`` and the command take them, and where they are scored.

    Attributes:
        lists, truth, train, pool: Tables, DataFrames of Spark, or paths of a file, of a folder or a pattern. Truth and
            train data may be logs of decisions: the dataset ``impressions``, or the path of a YAML file with it.
        columns: The names of their columns; those of a tool's format where none are named.
        relevance: Which ratings are relevant.
        format: Format of the files, or the tool that made a table.
        truth_format: Format of truth and train data; auto: by a name such as .inter, or else that of the lists.
        text_ids: Ids in files of text that look like integers stay text.
        duplicates: Of pairs of truth and train data; keep: rows are events.
        memory: Limit of the memory, in bytes or as ``2GB``, on an engine of each of its calls; None: no limit.
        partitioned: Each file of the lists has all rows of its users: files are scored one by one.
        engine: Where partitions are scored, as in a config; None or ``local``: on threads of this process.

    Raises:
        DataError: ``duplicates`` has another value, or there is no such format.
    """

    lists: Any
    truth: Any
    train: Any = None
    pool: Any = None
    columns: ListColumns = field(default_factory=ListColumns)
    relevance: Relevance = ABOVE_0
    format: Format = "auto"
    truth_format: TruthFormat = "auto"
    text_ids: bool = False
    duplicates: Literal["error", "keep"] = "error"
    memory: str | int | None = None
    partitioned: bool = False
    engine: Any = None

    def __post_init__(self) -> None:
        if self.duplicates not in ("error", "keep"):
            raise DataError(f"duplicates must be error or keep, not {self.duplicates!r}")
        checked_formats(self.format, "lists")
        checked_formats(self.truth_format, "truth")
        columns = columns_of(self.columns, self.format, self.truth_format)
        object.__setattr__(self, "columns", columns)

    @cached_property
    def sources(self) -> Sources:
        """``Table`` or ``TableFiles`` by role, located, but not read; Spark DataFrames stay as they are.

        Raises:
            DataError: Files that are missing, something that is not a table, Spark DataFrames beside other lists or
                truth.
        """
        given: Sources = {"lists": self.lists, "truth": self.truth, "train": self.train, "pool": self.pool}
        if any(map(is_spark, given.values())):
            check_frames(given)
        sources = {role: self._source(table, role) for role, table in given.items()}
        return self._with_merged_events(sources) if self.duplicates == "keep" else sources

    def _source(self, table: Any, role: Role) -> Any:
        if is_spark(table) or (role in ("train", "pool") and table is None):
            return table
        own = self.format if role == "lists" or self.truth_format == "auto" else self.truth_format
        source: TableFiles | Table
        if isinstance(table, (str, Path)):
            source = open_files(table, role, format=own, text_ids=self.text_ids)
        else:
            source = Table(table, role)
        check_columns(source, role, self.columns, own)
        if role == "truth":
            self._check_ratings(source)
        return source

    def _check_ratings(self, truth: TableFiles | Table) -> None:
        """Refuse a truth without ratings, of which none can reach the threshold; numbers of events may."""
        least = self.relevance.threshold or 0
        if least <= 1 or self.duplicates == "keep":
            return
        names = truth.columns
        if "rating" not in self.columns.to_read("truth", truth.name, names):
            raise DataError(
                f"{truth.name}: with a threshold of {least:g} nothing is relevant, as no column has ratings; name it "
                f"by rating: the columns are {', '.join(names)}"
            )

    @property
    def unit(self) -> Unit:
        """What has a list: a user, a query, or a decision of a log."""
        return self.columns.unit if Log.of(self.truth) is None else DECISION

    @property
    def _in_partitions(self) -> bool:
        return self.memory is not None or self.partitioned or self.engine is not None

    def _with_merged_events(self, sources: Sources) -> Sources:
        """Return the sources with each pair of truth and train data once, as in a bake-off on a log of events.

        Its rating is the sum of the ratings of its rows; without ratings, their number.

        Raises:
            DataError: Rows that are on Spark or in partitions, a missing column, a value that breaks a rule.
        """
        by_fold(sources, self.columns, option="duplicates: keep")
        if self._in_partitions or any(map(is_spark, sources.values())):
            raise DataError(
                "duplicates: keep merges events in memory, so that memory, partitioned, engine and Spark DataFrames do "
                "not go with it: group the events by user and item yourself, with their number as the rating"
            )
        return {
            role: source
            if role in ("lists", "pool") or source is None
            else _merged(source, role, self.columns)
            for role, source in sources.items()
        }

    def score(
        self,
        specs: Sequence[MetricSpec],
        *,
        curves: bool = False,
        report: Callable[[str], None] = lambda text: None,
    ) -> ListScores:
        """Return the scores by some metrics. With a column ``fold``, users are averaged over folds.

        Args:
            specs: The metrics.
            curves: Whether metrics are computed at the cutoffs of curves too.
            report: Callback for progress.

        Raises:
            DataError: Input that breaks a rule, or exceeds the memory and is no Parquet file.
            EngineError: The engine cannot run calls.
        """
        request = ScoreRequest(specs, self.relevance, self.columns, curves)
        if (log := Log.of(self.truth)) is not None:
            return self._on_log(log, request)
        sources = self.sources
        check_request(specs, sources["train"] is not None, has_pool=sources["pool"] is not None)
        on_spark = any(map(is_spark, sources.values()))
        in_memory = not (self._in_partitions or on_spark)
        if sources["pool"] is not None and not in_memory:
            raise DataError(
                "pool: a pool is read into memory, so that memory, partitioned, engine and Spark DataFrames do not go "
                "with it: leave them out, or the pool"
            )
        option = "" if in_memory else "memory, partitioned, engine and Spark DataFrames"
        if len(folds := by_fold(sources, self.columns, option=option)) > 1:
            return _scored_by_fold(folds, request)
        if on_spark:
            if self._in_partitions:
                raise DataError(
                    "memory, partitioned, engine: Spark DataFrames are scored by Spark, within what is set in its "
                    "session: leave these out for them"
                )
            return score_frames(sources, request)
        if self._in_partitions:
            return self._in_parts(sources, request, report)
        return _at_once(sources, request)

    def _on_log(self, log: Log, request: ScoreRequest) -> ListScores:
        """Return the scores on a log of decisions."""
        if self._in_partitions or is_spark(self.lists) or self.duplicates == "keep":
            raise DataError(
                "truth: lists are scored on a log of decisions in memory, row by row: memory, partitioned, engine, "
                "duplicates: keep and Spark DataFrames do not go with it"
            )
        earlier = Log.of(self.train)
        if self.train is not None and earlier is None:
            raise DataError(
                "train: where the truth is a log of decisions, the train data is an earlier log, given as the truth is"
            )
        sources = {"lists": self._source(self.lists, "lists"), "pool": self._source(self.pool, "pool")}
        return score_on_log(sources, log, earlier, request)

    def _in_parts(self, sources: Sources, request: ScoreRequest, report: Callable[[str], None]) -> ListScores:
        """Return the scores of as many partitions as the options ask for, which may be one."""
        engine, n = engine_of(self.engine), 1
        if self.memory is not None:
            threads = threads_for(request) if engine is None else 1
            n = partitions_within(bytes_of(self.memory), sources, self.columns, threads)
        if n == 1 and not self.partitioned and engine is None:
            return _at_once(sources, request)
        lists, truth = sources["lists"], sources["truth"]
        if not (_is_parquet(lists) and _is_parquet(truth)):
            odd = truth if _is_parquet(lists) else lists
            why = f"lists and truth do not fit into {self.memory}"
            if n == 1:
                why = "partitions are asked for (an engine, or files that are partitioned by user)"
            raise DataError(
                f"{odd.name}: {why}, and only Parquet files are scored in partitions, with a row for each item; "
                f"write both so, or {'allow more memory' if n > 1 else 'leave that out'}"
            )
        if engine is not None:
            sources = {**sources, "lists": lists.with_absolute_paths(), "truth": truth.with_absolute_paths()}
        if self.partitioned:
            return ListScores(score_files(sources, request, report=report, engine=engine))
        return ListScores(score_partitioned(sources, request, n, report=report, engine=engine))


def _merged(source: TableFiles | Table, role: Role, columns: ListColumns) -> Table:
    rows = interactions_alone(PairColumns.read_all(source, role, columns))
    pairs = replace(rows, events=True).merged()
    names = columns.to_read(role, source.name, source.columns)
    data = {
        names["user"]: pairs.users[pairs.user],
        names["item"]: pairs.items[pairs.item],
        names.get("rating", columns.rating or "rating"): pairs.rating,
    }
    return Table(pa.table(data), source.name)


def _scored_by_fold(folds: Sequence[Sources], request: ScoreRequest) -> ListScores:
    """Return each user's scores averaged over folds, as in a bake-off."""
    scored = [_at_once(fold, request) for fold in folds]
    return ListScores(
        average_folds([of_fold.scores for of_fold in scored]),
        notes=tuple(dict.fromkeys(note for of_fold in scored for note in of_fold.notes)),
        fold_means=tuple(of_fold.means for of_fold in scored),
    )


def engine_of(engine: object) -> Engine | None:
    """Return the engine of a name, of a mapping with ``type`` as in a config, or as it is; None: this process.

    Raises:
        EvalpluginError: There is no such engine, or it has no such parameters.
    """
    if isinstance(engine, str):
        engine = {"type": engine}
    asked = engine.get("type") if isinstance(engine, Mapping) else None
    if asked == "executor" or isinstance(engine, Executor):
        others = ", ".join(name for name in ENGINES.names() if name != "executor")
        raise EngineError(
            f"engine executor: an executor is told by the `workers` of a config how many tasks it gets at a time, "
            f"which score does not have; allowed: {others}"
        )
    if isinstance(engine, Mapping):
        parameters = dict(engine)
        if not isinstance(kind := parameters.pop("type", None), str):
            raise DataError("engine: a mapping names the engine by its key 'type', such as {'type': 'ray'}")
        engine = ENGINES.create(kind, parameters)
    if engine is None or isinstance(engine, Local):
        return None
    if not callable(getattr(engine, "open", None)):
        raise DataError(f"engine must be a name such as 'ray', or a mapping with 'type', not {engine!r}")
    return cast(Engine, engine)


def _at_once(sources: Sources, request: ScoreRequest) -> ListScores:
    inputs = ListInput.read(sources, request.columns)
    source, pool, catalogue = sources["pool"], None, None
    if source is not None:
        pool = PairColumns.read_all(source, "pool", request.columns)
        check_same_kinds(lists=inputs.lists, pool=pool)
    if need_catalogue(request.specs) or pool is not None:
        catalogue = Catalogue.of([*inputs[:2], *([] if pool is None else [pool])], inputs.train)
    scores = Scoring(request, catalogue, pool=pool).state(inputs.lists, inputs.truth).scores()
    notes = inputs.notes if pool is None else [*inputs.notes, *pool.notes]
    return ListScores(scores, notes=tuple(notes))


def _is_parquet(source: Any) -> bool:
    return isinstance(source, TableFiles) and source.is_parquet
