"""Lists, truth and train data, from tables or files, scored at once or part by part."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any

from evalplugin.base.errors import DataError
from evalplugin.base.units import bytes_of
from evalplugin.data.files import TableFiles
from evalplugin.data.interactions import Interactions
from evalplugin.data.tables import Table
from evalplugin.lists.catalogue import catalogue_of, interactions_alone
from evalplugin.lists.columns import ListColumns, ListInput, PairColumns, Role, refuse_rows
from evalplugin.lists.files import Format, open_files
from evalplugin.lists.parts import engine_of, open_session, parts_for, score_by_ranges, score_in_parts
from evalplugin.lists.scores import ListScores
from evalplugin.lists.scoring import score_in_memory, top_n_on
from evalplugin.lists.spark import is_spark, score_frames
from evalplugin.metrics import MetricSpec
from evalplugin.metrics.blocks import BrokenRowsError
from evalplugin.metrics.scores import PerUserScores
from evalplugin.models.selection import TopN

__all__ = ["lists_and_truth", "read_interactions", "score_lists"]


def score_lists(
    lists: Any,
    truth: Any,
    specs: Sequence[MetricSpec],
    *,
    train: Any = None,
    threshold: float | None = None,
    columns: ListColumns | None = None,
    format: Format = "auto",
    text_ids: bool = False,
    memory: str | int | None = None,
    partitioned: bool = False,
    engine: Any = None,
    curve_ks: Callable[[int], Sequence[int]] | None = None,
    report: Callable[[str], None] = lambda text: None,
) -> ListScores:
    """Return the scores of lists; see ``evalplugin.score``.

    Args:
        lists, truth, train: Tables, paths of files, or Spark DataFrames.
        specs: The metrics.
        threshold: Ratings from it on are relevant; None: ratings above 0 are.
        columns: Names of the columns; None: the usual names.
        format: Format of the files.
        text_ids: Ids in CSV files that look like integers stay text.
        memory: Limit of the memory, in bytes or as ``2GB``, on an engine of each of its calls; None: no limit.
        partitioned: Each file of the lists has all rows of its users: files are scored one by one.
        engine: Where parts are scored, as in a config; None or ``local``: on threads of this process.
        curve_ks: Callback from the length of the longest list to the cutoffs of ``at_k``; None: no curves.
        report: Callback for progress.

    Raises:
        DataError: A threshold that is no number; input that is missing, breaks a rule, or exceeds the memory and
            is no Parquet file.
        EngineError: The engine cannot run calls.
    """
    columns = columns or ListColumns()
    _check_threshold(threshold)
    if any(map(is_spark, (lists, truth, train))):
        if memory is not None:
            raise DataError(
                "memory: what Spark uses is set in Spark's session; leave it out for Spark DataFrames"
            )
        if partitioned or engine is not None:
            raise DataError(
                "engine, partitioned: Spark DataFrames are scored by Spark; leave these out for them"
            )
        history = train
        if train is not None and not is_spark(train):
            history = _table(_source(train, "train", format, text_ids), "train", columns)
        return score_frames(lists, truth, history, specs, columns, threshold)
    sources = _open(lists, truth, train, format, text_ids)
    with _rows_named(sources, columns):
        chosen = None if engine is None else engine_of(engine)
        threads = None if chosen is None else 1
        n_parts = 1 if memory is None else parts_for(sources, columns, bytes_of(memory), threads)
        if n_parts == 1 and not partitioned and chosen is None:
            scores = _by_ranges(sources, specs, threshold, columns, curve_ks)
            if scores is not None:
                return ListScores(scores)
            inputs = _read(sources, columns)
            return ListScores(score_in_memory(inputs, specs, threshold, curve_ks=curve_ks))
        files = [
            s for s in (sources["lists"], sources["truth"]) if isinstance(s, TableFiles) and s.is_parquet
        ]
        if len(files) < 2:
            odd = sources["truth"] if sources["lists"] in files else sources["lists"]
            why = (
                f"lists and truth do not fit into {memory}"
                if n_parts > 1
                else "parts are asked for (an engine, or files that are partitioned by user)"
            )
            raise DataError(
                f"{odd.name}: {why}, and only Parquet files are scored "
                f"part by part; write both as Parquet, or {'allow more memory' if n_parts > 1 else 'leave that out'}"
            )
        history = _table(sources["train"], "train", columns) if "train" in sources else None
        open_engine = None
        if chosen is not None:
            files = [source.with_absolute_paths() for source in files]
            open_engine = partial(open_session, chosen, files, report)
        return ListScores(
            score_in_parts(
                files[0],
                files[1],
                history,
                specs,
                columns,
                threshold,
                n_parts,
                curve_ks=curve_ks,
                report=report,
                partitioned=partitioned,
                engine=open_engine,
            )
        )


@contextmanager
def _rows_named(sources: Mapping[Role, TableFiles | Table], columns: ListColumns) -> Iterator[None]:
    """Add the places in the input to an error in rows, wherever they were found."""
    try:
        yield
    except BrokenRowsError as error:
        refuse_rows(error, sources[error.broken.role], columns)


def _by_ranges(
    sources: Mapping[Role, TableFiles | Table],
    specs: Sequence[MetricSpec],
    threshold: float | None,
    columns: ListColumns,
    curve_ks: Callable[[int], Sequence[int]] | None,
) -> PerUserScores | None:
    """Return the scores of large Parquet files; None for others, and for input that breaks a rule."""
    lists, truth = sources["lists"], sources["truth"]
    if not all(isinstance(source, TableFiles) and source.is_parquet for source in (lists, truth)):
        return None
    assert isinstance(lists, TableFiles) and isinstance(truth, TableFiles)
    train = _table(sources["train"], "train", columns) if "train" in sources else None
    try:
        return score_by_ranges(lists, truth, train, specs, columns, threshold, curve_ks=curve_ks)
    except DataError:
        return None  # what is wrong is found again, with the row in the file, where all is read at once


def _check_threshold(threshold: object) -> None:
    if threshold is not None and not (isinstance(threshold, Real) and math.isfinite(threshold)):
        raise DataError(
            f"threshold must be a finite number, from which ratings are relevant, not {threshold!r}"
        )


def lists_and_truth(
    lists: Any,
    truth: Any,
    train: Any,
    columns: ListColumns,
    *,
    format: Format = "auto",
    text_ids: bool = False,
) -> tuple[TopN, Interactions, Interactions | None]:
    """Return lists, truth and train data on common codes; the lists have scores, or negated ranks.

    Raises:
        DataError: Input that is missing or breaks a rule.
    """
    sources = _open(lists, truth, train, format, text_ids)
    with _rows_named(sources, columns):
        inputs = _read(sources, columns)
        return top_n_on(catalogue_of(inputs), inputs)


def read_interactions(
    path: str, role: Role, columns: ListColumns, *, format: Format = "auto", text_ids: bool = False
) -> Interactions:
    """Return truth or train data from files, as interactions on their own vocabularies.

    Raises:
        DataError: Files that are missing or break a rule.
    """
    table = _table(open_files(path, role, format=format, text_ids=text_ids), role, columns)
    return interactions_alone(PairColumns.read(table, role, columns))


def _open(
    lists: Any, truth: Any, train: Any, format: Format, text_ids: bool
) -> dict[Role, TableFiles | Table]:
    """Return the given tables and files by role; files are located, but not read."""
    given: dict[Role, Any] = {"lists": lists, "truth": truth, "train": train}
    return {
        role: _source(table, role, format, text_ids)
        for role, table in given.items()
        if role != "train" or table is not None
    }


def _source(table: Any, role: Role, format: Format, text_ids: bool) -> TableFiles | Table:
    if isinstance(table, (str, Path)):
        return open_files(table, role, format=format, text_ids=text_ids)
    return Table(table, role)


def _read(sources: Mapping[Role, TableFiles | Table], columns: ListColumns) -> ListInput:
    tables = {role: _table(source, role, columns) for role, source in sources.items()}
    return ListInput.read(tables["lists"], tables["truth"], tables.get("train"), columns)


def _table(source: TableFiles | Table, role: Role, columns: ListColumns) -> Table:
    if isinstance(source, Table):
        return source
    return source.read(columns.of(role, source.name, source.columns))
