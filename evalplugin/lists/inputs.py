"""Lists, truth and train data wherever they are -> their scores, at once or part by part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evalplugin.base.errors import DataError
from evalplugin.base.units import bytes_of
from evalplugin.data.interactions import Interactions
from evalplugin.lists.columns import Source
from evalplugin.lists.files import FileSource, Format
from evalplugin.lists.frames import Columns, ListScores, Tables, catalogue_of, score_tables, top_n_on
from evalplugin.lists.parts import parts_for, score_in_parts
from evalplugin.metrics import MetricSpec
from evalplugin.models.selection import TopN

__all__ = ["lists_and_truth", "score_lists"]


def score_lists(
    lists: Any,
    truth: Any,
    specs: Sequence[MetricSpec],
    *,
    train: Any = None,
    threshold: float | None = None,
    columns: Columns | None = None,
    format: Format = "auto",
    text_ids: bool = False,
    memory: str | int | None = None,
    curve_ks: Callable[[int], Sequence[int]] = lambda n: (),
    report: Callable[[str], None] = lambda text: None,
) -> ListScores:
    """Return the scores of lists; see ``evalplugin.score``.

    Args:
        lists, truth, train: Tables, or paths of files.
        specs: What to compute.
        threshold: Ratings from it on are relevant; None: ratings above 0 are.
        columns: Which column is what; None: the usual names.
        format: Of the files.
        text_ids: Ids in CSV files that look like integers stay text.
        memory: How much may be used; None: as much as it takes.
        curve_ks: Returns the cutoffs of ``at_k`` for the length of the longest list.
        report: Hears what goes on.

    Raises:
        DataError: Input that is missing or breaks a rule, or does not fit and is no Parquet file.
    """
    columns = columns or Columns()

    sources = (
        _opened(lists, "lists", format, text_ids),
        _opened(truth, "truth", format, text_ids),
    )
    history = None if train is None else _opened(train, "train", format, text_ids)
    wanted = columns.of_lists(_name(sources[0]), _columns(sources[0])), columns.of_rated(_columns(sources[1]))
    if memory is not None:
        limit = bytes_of(memory)
        large = [
            (source, names)
            for source, names in zip(sources, wanted, strict=True)
            if isinstance(source, FileSource)
        ]
        n_parts = parts_for(large, limit)
        if n_parts > 1:
            spread = [source for source, _ in large if source.format == "parquet"]
            if len(spread) < len(sources):
                odd = next(s for s in sources if s not in spread)
                raise DataError(
                    f"{_name(odd)}: lists and truth do not fit into {memory}, and only Parquet files are scored "
                    f"part by part; write both as Parquet, or allow more memory"
                )
            return ListScores(
                score_in_parts(
                    spread[0],
                    spread[1],
                    None if history is None else _read(history, columns),
                    specs,
                    columns,
                    threshold,
                    n_parts,
                    curve_ks=curve_ks,
                    report=report,
                )
            )
    tables = _tables(sources, history, columns)
    return ListScores(score_tables(tables, specs, threshold, curve_ks=curve_ks))


def lists_and_truth(
    lists: Any, truth: Any, train: Any, columns: Columns, *, format: Format = "auto", text_ids: bool = False
) -> tuple[TopN, Interactions, Interactions | None]:
    """Return lists, truth and train data on common codes; the lists have scores, or ranks with the sign turned.

    Raises:
        DataError: Input that is missing or breaks a rule.
    """
    sources = tuple(_opened(t, role, format, text_ids) for t, role in ((lists, "lists"), (truth, "truth")))
    history = None if train is None else _opened(train, "train", format, text_ids)
    tables = _tables((sources[0], sources[1]), history, columns)
    return top_n_on(catalogue_of(tables), tables)


def _opened(table: Any, role: str, format: Format, text_ids: bool) -> FileSource | Source:
    if isinstance(table, (str, Path)):
        return FileSource.find(table, role, format=format, text_ids=text_ids)
    return Source(table, role)


def _tables(
    sources: tuple[FileSource | Source, FileSource | Source],
    history: FileSource | Source | None,
    columns: Columns,
) -> Tables:
    return Tables.read(
        _read(sources[0], columns),
        _read(sources[1], columns),
        None if history is None else _read(history, columns),
        columns,
    )


def _name(source: FileSource | Source) -> str:
    return source.path if isinstance(source, FileSource) else source.name


def _columns(source: FileSource | Source) -> list[str]:
    return source.names if isinstance(source, FileSource) else source.columns


def _read(source: FileSource | Source, columns: Columns) -> Source:
    if isinstance(source, Source):
        return source
    if source.role == "lists":
        return source.read(columns.of_lists(source.path, source.names))
    return source.read(columns.of_rated(source.names, source.role))
