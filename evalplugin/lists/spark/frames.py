"""Spark DataFrames of lists and truth, scored where they are."""

from __future__ import annotations

import pickle
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evalplugin._version import __version__
from evalplugin.base.errors import DataError, EngineError, how_to_install
from evalplugin.base.libraries import pa
from evalplugin.data.queries import QUERY_IDS, SEPARATOR, Unit
from evalplugin.data.tables import Ids, Table, ids_of
from evalplugin.data.vocabulary import encode
from evalplugin.lists.catalogue import NO_IDS, Catalogue
from evalplugin.lists.columns import (
    ListColumns,
    PairColumns,
    Role,
    ScoreRequest,
    Sources,
    check_same_kinds,
    read_train,
)
from evalplugin.lists.partition import Refused
from evalplugin.lists.scores import ListScores
from evalplugin.lists.scoring import Scoring, need_catalogue, need_longest
from evalplugin.lists.spark.buckets import (
    BucketScoring,
    UnorderedTable,
    merged_batches,
    merged_state,
    packed_rows,
    rows_in,
)
from evalplugin.metrics import MetricSpec, is_overall
from evalplugin.metrics.states import check_mergeable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = ("user", "item", "value")
_BUCKET = 2**17  # rows of lists and truth in a bucket, on average: thousands of users, some megabytes
# Buckets whose states are sent to the driver one by one; more are merged on Spark, partition by partition.
_STATES = 64
# Size of the data sent to every worker: Spark Connect accepts messages of 128 MiB, and each worker holds a copy.
_MOST_BYTES = {"connect": 100 * 2**20, "classic": 2**30}
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_NUMBERS = (*_WHOLE, "float", "double")
_RULES: dict[str, tuple[tuple[str, ...], str]] = {
    "rank": (_WHOLE, "ranks must be whole numbers"),
    "score": (_NUMBERS, "scores must be finite numbers"),
    "rating": (_NUMBERS, "ratings must be finite numbers (float32)"),
}


@dataclass(frozen=True, eq=False, repr=False)
class SparkScores(ListScores):
    """Scores of lists in Spark DataFrames; ``per_user`` is one as well, cached on Spark.

    One row a user: ``user``, and one double column a metric, NaN where undefined.
    """

    cached: DataFrame | None = None  # what ``per_user`` is selected from

    def unpersist(self) -> None:
        """Free what Spark has cached of ``per_user``."""
        if self.cached is not None:
            self.cached.unpersist()


def is_spark(table: object) -> bool:
    """Return whether a table is a DataFrame of Spark: classic, Connect, or pandas on Spark; it is not imported."""
    return any(c.__name__ == "DataFrame" and c.__module__.startswith("pyspark.") for c in type(table).__mro__)


def check_frames(tables: Sources) -> None:
    """Refuse a Spark DataFrame beside another kind of table, and tables of pandas on Spark.

    At least one of the tables is a Spark DataFrame.

    Raises:
        DataError: Names the table.
    """
    frames = [role for role, table in tables.items() if is_spark(table)]
    kinds = {role: type(table) for role, table in tables.items()}
    for role, kind in kinds.items():
        if role not in ("train", "pool") and role not in frames:
            raise DataError(
                f"{role}: must be a Spark DataFrame, as {frames[0]} is one, not {kind.__module__.partition('.')[0]} "
                f"{kind.__name__}: spark.createDataFrame({role}) makes one"
            )
    for role, kind in kinds.items():
        if kind.__module__.startswith("pyspark.pandas."):
            raise DataError(
                f"{role}: must be a Spark DataFrame, not one of pandas on Spark: give {role}.to_spark()"
            )


def score_frames(sources: Sources, request: ScoreRequest) -> SparkScores:
    """Return the scores of lists in Spark DataFrames, to the last bit as for the same rows in memory.

    Lists and truth are of one session. The train data is collected.

    Raises:
        DataError: As for lists in memory; the catalogue and the train data are too large to be sent to Spark's workers.
        EngineError: Spark is too old, or the Python of its workers lacks this version of evalplugin or a metric.
    """
    _check_version()
    specs = request.specs
    check_mergeable(specs)
    lists, columns = sources["lists"], request.columns
    sides = _Side.of(lists, "lists", columns), _Side.of(sources["truth"], "truth", columns)
    history = _train(sources, columns)
    check_same_kinds(lists=sides[0], truth=sides[1], train=history)
    session = lists.sparkSession
    _check_workers(session, specs)
    n_rows, longest = _sizes(sides, specs)
    catalogue = _catalogue(sides, history, session) if need_catalogue(specs) else None
    scoring = BucketScoring(
        Scoring(request, catalogue, longest),
        (sides[0].schema, sides[1].schema),
        sides[0].user.kind == "text",
        session.conf.get("spark.sql.execution.arrow.useLargeVarTypes", "false") == "true",
    )
    return _scored(sides, scoring, -(-n_rows // _BUCKET))


@dataclass(frozen=True, eq=False)
class _Side:
    """Lists or truth: a DataFrame with the columns ``user``, ``item`` and, perhaps, ``value``."""

    role: Role
    frame: DataFrame
    names: Sequence[str]  # of the columns, as the user calls them
    user: Ids  # of no row: for the kind
    item: Ids

    @classmethod
    def of(cls, frame: DataFrame, role: Role, columns: ListColumns) -> _Side:
        """Return the columns that are read, ids as bigint or string.

        Raises:
            DataError: A column is missing, or is of another type.
        """
        names = columns.to_read(role, role, frame.columns)
        # Columns by position: names may contain dots, or differ in case alone.
        numbered = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
        chosen, ids = [], []
        for new, (kind, name) in zip(_COLUMNS, names.items(), strict=False):
            position = frame.columns.index(name)
            data_type, column = frame.schema[position].dataType.simpleString(), f"c{position}"
            allowed, rule = _RULES.get(kind) or ((*_WHOLE, "string"), f"{kind} ids must be integers or text")
            if kind == "user" and columns.unit == "query":
                allowed, rule = ("string",), QUERY_IDS
            if data_type.partition(" ")[0].partition("(")[0] not in allowed:
                raise DataError(f"{role}: column {name!r} is of type {data_type}: {rule}")
            if kind in ("user", "item"):
                ids.append(ids_of(np.empty(0, np.int64 if data_type in _WHOLE else np.object_)))
                column = f"CAST({column} AS {'BIGINT' if data_type in _WHOLE else 'STRING'})"
            chosen.append(f"{column} AS `{new}`")
        return cls(role, numbered.selectExpr(*chosen), list(names.values()), *ids)

    @property
    def schema(self) -> pa.Schema:
        """The columns as they come to a worker, by the names that the user gave them."""
        from pyspark.sql.pandas.types import to_arrow_schema

        fields = to_arrow_schema(self.frame.schema)
        return pa.schema([field.with_name(name) for field, name in zip(fields, self.names, strict=True)])

    def buckets(self, n: int, unit: Unit, *, large: bool) -> Any:
        """Return the rows, packed, grouped into ``n`` buckets, which depend on the user, or the session, alone."""

        # A function that is defined here is sent by value, what it calls by name.
        def pack(batches: Any) -> Any:
            return packed_rows(batches, large=large)

        key = "`user`"
        if unit == "query":  # without its number, the text behind the last separator
            key = f"LEFT({key}, LENGTH({key}) - LENGTH(SUBSTRING_INDEX({key}, '{SEPARATOR}', -1)))"
        if unit == "query" or self.user.kind == "text":
            key = f"CAST({key} AS BINARY)"  # the hash of text follows its collation
        bucket = f"CAST(pmod(xxhash64({key}), {n}) AS INT) AS bucket"
        rows = self.frame.selectExpr("*", bucket).mapInArrow(pack, "bucket int, rows binary")
        return rows.groupBy("bucket")


def _check_version() -> None:
    import pyspark

    if int(pyspark.__version__.partition(".")[0]) < 4:
        raise EngineError(
            f"Spark DataFrames are scored by PySpark 4 or later, this is {pyspark.__version__}: "
            f"{how_to_install('pyspark[connect]>=4', 'spark')}"
        )


def _train(sources: Sources, columns: ListColumns) -> PairColumns | None:
    """Return the train data, collected."""
    train = sources["train"]
    if is_spark(train):
        side = _Side.of(train, "train", columns)
        train = UnorderedTable(side.frame.toArrow().rename_columns(side.names), "train")
    return read_train({"train": train}, columns)


def _sizes(sides: Sequence[_Side], specs: Sequence[MetricSpec]) -> tuple[int, int]:
    """Return the number of rows, and the length of the longest list; 1 if no metric depends on it."""
    lists, truth = sides
    longest = 1
    if need_longest(specs):
        lengths = lists.frame.groupBy("user").count()
        n_lists, most = lengths.selectExpr("sum(`count`)", "max(`count`)").collect()[0]
        longest = most or 1
    else:
        n_lists = lists.frame.count()
    n_truth = truth.frame.count()
    for side, n in ((lists, n_lists), (truth, n_truth)):
        if not n:
            raise DataError(f"{side.role}: there are no rows")
    return n_lists + n_truth, longest


def _catalogue(sides: Sequence[_Side], train: PairColumns | None, session: SparkSession) -> Catalogue:
    """Return the catalogue, which every worker receives.

    Raises:
        DataError: They are too large to be sent to the workers; a pair occurs twice in the train data.
    """

    def every(role: str) -> npt.NDArray[np.generic]:
        lists, truth = (side.frame.select(role) for side in sides)
        ids = Table(lists.unionAll(truth).distinct().dropna().toArrow(), role).ids(role, role)
        return encode([ids] if train is None else [ids, getattr(train, role)])[0]

    catalogue = Catalogue.on(NO_IDS if train is None else every("user"), every("item"), train)
    most, size = _MOST_BYTES["connect" if _is_connect(session) else "classic"], len(pickle.dumps(catalogue))
    if size > most:
        data = "the catalogue" if train is None else "the catalogue, the users and the train data"
        raise DataError(
            f"{data} of {size / 2**20:,.0f} MB, which these metrics read, go to every worker of Spark, "
            f"and that takes at most {most / 2**20:,.0f} MB: score other metrics there, or these from Parquet files"
        )
    return catalogue


def _scored(sides: Sequence[_Side], scoring: BucketScoring, n_buckets: int) -> SparkScores:
    """Return the scores; they are computed once, and what remains on Spark is cached there."""
    from pyspark.errors import PySparkException

    # Functions that are defined here are sent by value, what they call by name.
    def score_bucket(lists: Any, truth: Any) -> Any:
        return scoring(lists, truth)

    def merge(batches: Any) -> Any:
        return merged_batches(batches)

    def unpack(batches: Any) -> Any:
        return rows_in(batches)

    metrics = [spec.name for spec in scoring.scoring.request.specs if not is_overall(spec.metric)]
    values = [f"m{i}" for i in range(len(metrics))]
    id_type = "bigint" if sides[0].user.kind == "integers" else "string"
    unit = scoring.scoring.request.columns.unit
    buckets, others = (side.buckets(n_buckets, unit, large=scoring.large) for side in sides)
    scored = buckets.cogroup(others).applyInArrow(score_bucket, "outcome binary, users binary")
    # Serverless Spark has no cache: buckets are then scored again when rows of users are read.
    with suppress(PySparkException):
        scored.persist()
    try:
        outcomes = scored.select("outcome")
        if n_buckets > _STATES:
            outcomes = outcomes.mapInArrow(merge, "outcome binary")
        outcome = merged_state(outcomes.toArrow().column(0).to_pylist())
        if isinstance(outcome, Refused):
            raise DataError(outcome.message)
    except BaseException:
        with suppress(PySparkException):
            scored.unpersist()
        raise
    # Rows of users are made of the bytes when they are read, as Java takes long for each row.
    schema = ", ".join([f"`user` {id_type}", *(f"{value} double" for value in values)])
    rows = scored.select("users").mapInArrow(unpack, schema).toDF("user", *metrics)
    return SparkScores(outcome.totals(), rows, cached=scored)


def _is_connect(session: SparkSession) -> bool:
    """Return whether a session is one of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def _check_workers(session: SparkSession, specs: Sequence[MetricSpec]) -> None:
    """Check that a worker has this version of evalplugin, and the metrics of plugins.

    Raises:
        EngineError: It has not, or Spark cannot start its Python.
    """
    # Of the session's own kind, as a process may have both.
    functions = import_module(f"pyspark.sql.{'connect.' if _is_connect(session) else ''}functions")
    plugins = {spec.name: pickle.dumps(spec) for spec in specs if not spec.is_own}

    # It is sent by value and uses nothing of evalplugin, which a worker may lack.
    def look(_: int) -> str:
        import pickle
        import sys

        python, needed = f"the Python of Spark's workers ({sys.executable})", "evalplugin"
        try:
            from evalplugin._version import __version__ as there

            if there != __version__:
                return f"{python} has evalplugin {there}, but this process has {__version__}: install the same version"
            import evalplugin.lists.spark.buckets  # noqa: F401 - with all that it needs

            for name, plugin in plugins.items():
                needed = f"metric {name}"
                pickle.loads(plugin)
        except Exception as error:  # noqa: BLE001 - all that may be wrong with another environment
            return f"{python} cannot import {needed} ({type(error).__name__}: {error}): install its package there"
        return ""

    try:
        problem = session.range(1).select(functions.udf(look, "string", useArrow=False)("id")).collect()[0][0]
    except Exception as error:  # of Spark, Java or gRPC, by where it occurs
        causes = re.findall(r"^.*(?:Exception|Error): (\S.*)$", str(error), re.MULTILINE)
        cause = causes[0] if causes else str(error).partition("\n")[0]
        raise EngineError(f"Spark cannot run Python on its workers: {cause}") from error
    if problem:
        raise EngineError(problem)
