"""Lists, truth and train data, from tables or files, scored at once or in partitions."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

from evalplugin.base.errors import DataError, EngineError, did_you_mean
from evalplugin.base.libraries import pa
from evalplugin.base.units import bytes_of
from evalplugin.config.engines import ENGINES
from evalplugin.data.files import TableFiles, find_files
from evalplugin.data.formats import CsvFormat, ParquetFormat, TrecFormat, format_by_name
from evalplugin.data.pair_formats import PairFormat, pair_format
from evalplugin.data.reading import COMPRESSED, path_text
from evalplugin.data.tables import Table
from evalplugin.execution.engines import Engine, Needs, Session
from evalplugin.execution.engines.executor import Executor
from evalplugin.execution.engines.local import Local
from evalplugin.execution.store import private_folder
from evalplugin.files import Format
from evalplugin.files.inputs import fingerprint_of
from evalplugin.lists.catalogue import Catalogue, interactions_alone
from evalplugin.lists.columns import (
    ListColumns,
    PairColumns,
    Role,
    ScoreRequest,
    check_same_kinds,
    refuse_rows,
)
from evalplugin.lists.folds import by_fold
from evalplugin.lists.partitioned import (
    OpenEngine,
    no_engine,
    partitions_within,
    score_files,
    score_partitioned,
    threads_for,
)
from evalplugin.lists.scores import ListScores
from evalplugin.lists.scoring import Scoring, need_catalogue
from evalplugin.lists.spark.frames import check_frames, is_spark, score_frames
from evalplugin.metrics.blocks import BrokenRowsError
from evalplugin.metrics.scores import average_folds
from evalplugin.metrics.scoring import check_request

TruthFormat: TypeAlias = Literal[
    Format, PairFormat
]  # of truth and train data; auto: as the lists, or by name
_FORMATS: tuple[str, ...] = get_args(Format)
_PAIR_FORMATS: tuple[str, ...] = get_args(PairFormat)
_PAIR_SUFFIXES: Mapping[str, PairFormat] = {".inter": "recbole", ".npz": "npz"}


def open_sources(
    given: Mapping[Role, Any],
    *,
    format: Format = "auto",
    truth_format: TruthFormat = "auto",
    text_ids: bool = False,
) -> dict[Role, Any]:
    """Return ``Table`` or ``TableFiles`` by role: files are located, but not read; Spark DataFrames stay as they are.

    Args:
        given: Tables, or paths of a file, of a folder or a pattern; None for train data or a pool that is not given.
        format: Format of the files.
        truth_format: Format of truth and train data; auto: by a name such as .inter, or else that of the lists.
        text_ids: Ids in files of text that look like integers stay text.

    Raises:
        DataError: Files that are missing, something that is not a table, Spark DataFrames beside other lists or truth.
    """
    if any(map(is_spark, given.values())):
        check_frames(given)

    def source(table: Any, role: Role) -> Any:
        if is_spark(table) or (role in ("train", "pool") and table is None):
            return table
        if isinstance(table, (str, Path)):
            own = format if role == "lists" or truth_format == "auto" else truth_format
            return open_files(table, role, format=own, text_ids=text_ids)
        return Table(table, role)

    return {role: source(table, role) for role, table in given.items()}


def open_files(
    path: str | Path,
    role: str,
    *,
    folder: Path = Path(),
    format: TruthFormat = "auto",
    text_ids: bool = False,
) -> TableFiles:
    """Return the files of a path, with their format.

    Args:
        path: A file, a pattern, or a folder of Parquet files.
        role: ``lists``, ``truth``, ``train``, ``pool`` or ``scores``.
        folder: Base of a relative path.
        format: ``auto``: by the name of the first file. Lists and scores have columns that formats of pairs have not.
        text_ids: Ids in files of text that look like integers stay text.

    Raises:
        DataError: The file does not exist, or its format is unknown.
    """
    are_pairs = role not in ("lists", "scores")
    allowed = _FORMATS + _PAIR_FORMATS if are_pairs else _FORMATS
    if format not in allowed:
        near = did_you_mean(format, allowed)
        raise DataError(f"the format of the {role} must be one of {', '.join(allowed)}, not {format!r}{near}")
    text = str(path)
    files, partitions = find_files(folder, text, "*.parquet" if format in ("auto", "parquet") else None)
    first = files[0]
    name = first.name.casefold()
    if format == "auto" and are_pairs:
        format = _PAIR_SUFFIXES.get(Path(name).suffix, format)
    reader = format_by_name(first, CsvFormat())
    if format == "auto" and not isinstance(reader, CsvFormat):
        return TableFiles(text, files, reader, partitions)
    if format == "auto":
        format = "csv"
        plain = Path(name).stem if Path(name).suffix in COMPRESSED else name
        if not plain.endswith((".csv", ".tsv")):
            raise DataError(
                f"{path_text(first)}: the format is not known by the name: name the file .csv, .tsv, .jsonl or "
                f".parquet{_or_say(role, allowed[1:])}"
            )
    match format:
        case "parquet":
            reader = ParquetFormat()
        case "trec":
            reader = TrecFormat(run=role == "lists")
        case "adjacency" | "recbole" | "triples" | "npz":
            reader = pair_format(format, text_ids=text_ids)
        case _:
            separator = "\t" if ".tsv" in name else ","
            reader = CsvFormat(separator, text=("user", "item") if text_ids else ())
    return TableFiles(text, files, reader, partitions)


def _or_say(role: str, formats: Sequence[str]) -> str:
    """Return how the format of a role is named, if it can be."""
    if role == "scores":
        return ""
    option = "--input-format" if role == "lists" else "--truth-format"
    return f", or say which it is: {', '.join(formats)} ({option})"


def merge_events(
    sources: Mapping[Role, Any], columns: ListColumns, *, in_partitions: bool
) -> dict[Role, Any]:
    """Return the sources with each pair of truth and train data once, as in a bake-off on a log of events.

    Its rating is the sum of the ratings of its rows; without ratings, their number.

    Args:
        sources: Of ``open_sources``.
        columns: The names of their columns.
        in_partitions: Whether memory, partitioned or an engine is asked for, which is refused.

    Raises:
        DataError: Rows that are on Spark or in partitions, a missing column, a value that breaks a rule.
    """
    by_fold(sources, columns, option="duplicates: keep")
    if in_partitions or any(map(is_spark, sources.values())):
        raise DataError(
            "duplicates: keep merges events in memory, so that memory, partitioned, engine and Spark DataFrames do not "
            "go with it: group the events by user and item yourself, with their number as the rating"
        )
    return {
        role: source if role in ("lists", "pool") or source is None else _merged(source, role, columns)
        for role, source in sources.items()
    }


def _merged(source: TableFiles | Table, role: Role, columns: ListColumns) -> Table:
    rows = interactions_alone(PairColumns.read_all(source, role, columns))
    pairs = replace(rows, events=True).merged()
    names = columns.of(role, source.name, source.columns)
    data = {
        names["user"]: pairs.users[pairs.user],
        names["item"]: pairs.items[pairs.item],
        names.get("rating", columns.rating or "rating"): pairs.rating,
    }
    return Table(pa.table(data), source.name)


def score_lists(
    lists: Any,
    truth: Any,
    request: ScoreRequest,
    *,
    memory: str | int | None = None,
    partitioned: bool = False,
    engine: Any = None,
    report: Callable[[str], None] = lambda text: None,
) -> ListScores:
    """Return the scores of lists; see ``evalplugin.score``. With a column ``fold``, users are averaged over folds.

    Args:
        lists, truth: Of ``open_sources``.
        request: The metrics, the train data and the columns.
        memory: Limit of the memory, in bytes or as ``2GB``, on an engine of each of its calls; None: no limit.
        partitioned: Each file of the lists has all rows of its users: files are scored one by one.
        engine: Where partitions are scored, as in a config; None or ``local``: on threads of this process.
        report: Callback for progress.

    Raises:
        DataError: Input that breaks a rule, or exceeds the memory and is no Parquet file.
        EngineError: The engine cannot run calls.
    """
    check_request(request.specs, request.train is not None, has_pool=request.pool is not None)
    on_spark = any(map(is_spark, (lists, truth, request.train)))
    in_partitions = memory is not None or partitioned or engine is not None
    in_memory = not (in_partitions or on_spark)
    if request.pool is not None and not in_memory:
        raise DataError(
            "pool: a pool is read into memory, so that memory, partitioned, engine and Spark DataFrames do not go with "
            "it: leave them out, or the pool"
        )
    sources: dict[Role, Any] = {"lists": lists, "truth": truth, "train": request.train, "pool": request.pool}
    option = "" if in_memory else "memory, partitioned, engine and Spark DataFrames"
    if len(folds := by_fold(sources, request.columns, option=option)) > 1:
        return _scored_by_fold(folds, request)
    if on_spark:
        if in_partitions:
            raise DataError(
                "memory, partitioned, engine: Spark DataFrames are scored by Spark, within what is set in its session: "
                "leave these out for them"
            )
        return score_frames(lists, truth, request)
    with rows_named(lists, truth, request):
        chosen, n = engine_of(engine), 1
        if memory is not None:
            threads = threads_for(request) if chosen is None else 1
            n = partitions_within(bytes_of(memory), lists, truth, request, threads)
        if n == 1 and not partitioned and chosen is None:
            return _at_once(lists, truth, request)
        if not (_is_parquet(lists) and _is_parquet(truth)):
            odd = truth if _is_parquet(lists) else lists
            why = f"lists and truth do not fit into {memory}"
            if n == 1:
                why = "partitions are asked for (an engine, or files that are partitioned by user)"
            raise DataError(
                f"{odd.name}: {why}, and only Parquet files are scored "
                f"in partitions; write both as Parquet, or {'allow more memory' if n > 1 else 'leave that out'}"
            )
        open_engine: OpenEngine = no_engine
        if chosen is not None:
            lists, truth = lists.with_absolute_paths(), truth.with_absolute_paths()
            open_engine = partial(_open_session, chosen, [lists, truth], report)
        if partitioned:
            return ListScores(score_files(lists, truth, request, report=report, open_engine=open_engine))
        scores = score_partitioned(lists, truth, request, n, report=report, open_engine=open_engine)
        return ListScores(scores)


def _scored_by_fold(folds: Sequence[Mapping[Role, Any]], request: ScoreRequest) -> ListScores:
    """Return each user's scores averaged over folds, as in a bake-off."""
    scored = []
    for fold in folds:
        of = replace(request, train=fold["train"], pool=fold["pool"])
        with rows_named(fold["lists"], fold["truth"], of):
            scored.append(_at_once(fold["lists"], fold["truth"], of))
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


@contextmanager
def _open_session(
    engine: Engine, tables: Sequence[TableFiles], report: Callable[[str], None], others: Sequence[Path]
) -> Generator[Session]:
    """Yield a session whose nodes all have the same first file of each table, and other files.

    Raises:
        EngineError: The engine cannot run calls, or a node lacks a file.
    """
    firsts = [table.files[0] for table in tables if isinstance(table.files[0], Path)]
    inputs = {str(file): fingerprint_of(str(file), lambda uri: "") for file in (*firsts, *others)}
    with private_folder() as folder, engine.open(Needs(folder, inputs=inputs, report=report)) as session:
        yield session


@contextmanager
def rows_named(lists: Any, truth: Any, request: ScoreRequest) -> Iterator[None]:
    """Add the places in the input to an error in rows, wherever they were found."""
    try:
        yield
    except BrokenRowsError as error:
        sources: dict[Role, Any] = {
            "lists": lists,
            "truth": truth,
            "train": request.train,
        }
        refuse_rows(error, sources[error.broken.role], request.columns)


def _at_once(lists: Any, truth: Any, request: ScoreRequest) -> ListScores:
    inputs, pool, catalogue = request.read(lists, truth), request.candidates, None
    check_same_kinds(lists=inputs.lists, pool=pool)
    if need_catalogue(request.specs) or pool is not None:
        catalogue = Catalogue.of([*inputs[:2], *([] if pool is None else [pool])], inputs.train)
    scores = Scoring(request, catalogue, pool=pool).state(inputs.lists, inputs.truth).scores()
    notes = inputs.notes if pool is None else [*inputs.notes, *pool.table.notes]
    return ListScores(scores, notes=tuple(notes))


def _is_parquet(source: Any) -> bool:
    return isinstance(source, TableFiles) and source.is_parquet
