"""File formats of tables: CSV, Parquet, JSON lines, and TREC's runs and qrels."""

from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from itertools import islice, product
from typing import IO, Any, Protocol

from evalplugin.base.errors import DataError
from evalplugin.base.libraries import arrow_csv, pa, pc, pd
from evalplugin.base.text import shorten
from evalplugin.data.reading import LineCounter, check_parquet, open_parquet, open_text, path_text
from evalplugin.data.tables import is_cluster
from evalplugin.files.remote import File

_RUN = ("user", "q0", "item", "trec_rank", "score", "tag")
_ID_ROLES = ("user", "item", "part", "decision")
_UNIT = "\x1f"  # ASCII's separator of units, in place of a separator of two characters
_HEAD = 1000  # lines of JSON whose keys are the columns
_JSON_TYPES = {bool: "bool", int: "int64", float: "float64"}
_JSON_BLOCK = 2**24  # bytes; no line may be longer
_LONGEST_VALUE = 2**20  # bytes of text in a CSV file, as of a block of Arrow's reader
_QRELS = ("user", "iteration", "item", "rating")


def is_id(role: str) -> bool:
    """Return whether the column of this role holds ids, which are integers or text."""
    return role in _ID_ROLES or is_cluster(role)


class FileFormat(Protocol):
    """Reader of one file, inside of ``readable``, which turns its errors into DataErrors."""

    def names(self, file: File) -> list[str]:
        """Return the names of the columns."""

    def read(self, file: File, roles: Mapping[str, str]) -> pa.Table:
        """Return the requested columns, by role, such as ``{"user": "user_id"}``."""


@dataclass(frozen=True)
class ParquetFormat:
    """Parquet."""

    def names(self, file: File) -> list[str]:
        """Return the names in the schema."""
        check_parquet(file)
        with open_parquet(file) as opened:
            return [str(name) for name in opened.schema_arrow.names]

    def read(self, file: File, roles: Mapping[str, str]) -> pa.Table:
        """Return the requested columns."""
        with open_parquet(file) as opened:
            return opened.read(columns=list(dict.fromkeys(roles.values())))


@dataclass(frozen=True)
class CsvFormat:
    """CSV in UTF-8, also compressed (.gz, .bz2). With a separator of two characters, quotes have no meaning.

    A column of ids holds integers if every id is an integer as Python writes it. Where one has a leading zero, a plus
    or more than 64 bits, all stay text, so that ``01`` and ``1`` differ. The types of other columns are inferred.
    """

    separator: str = ","
    columns: Sequence[str] | None = None  # names of all columns, for files without a header line
    text: Collection[str] = ()  # roles of columns whose values are read as text

    def names(self, file: File) -> list[str]:
        """Return the names in the header line, or those given; none for an empty file."""
        with _decoded(self._open(file)) as lines:
            names = next(csv.reader(lines, **self._dialect), [])
        if any("\n" in name for name in names):
            raise DataError(f"{path_text(file)}: line 1: a quote is opened that is not closed")
        return list(self.columns) if self.columns else names

    def read(self, file: File, roles: Mapping[str, str]) -> pa.Table:
        """Return the requested columns; empty values are null."""
        ids = {name for role, name in roles.items() if is_id(role) and role not in self.text}
        text = {name for role, name in roles.items() if role in self.text}
        # An empty text is a missing value; words such as NA or null are not.
        convert = arrow_csv.ConvertOptions(
            include_columns=list(dict.fromkeys(roles.values())),
            column_types=dict.fromkeys(ids | text, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
        )

        def read(*, use_threads: bool = True) -> tuple[pa.Table, int]:
            options = arrow_csv.ReadOptions(use_threads=use_threads, column_names=self.columns)
            parse = arrow_csv.ParseOptions(
                delimiter=self._dialect["delimiter"],
                quote_char='"' if self._is_plain else False,
                newlines_in_values=True,
            )
            with self._open(file) as stream:
                counter = LineCounter(stream)
                return arrow_csv.read_csv(counter, options, parse, convert), counter.lines

        header = 0 if self.columns else 1
        try:
            table, lines = read()
        except pa.ArrowInvalid:
            self._count_rows(file)
            try:
                table, lines = read(use_threads=False)  # only a single thread knows at which row it fails
            except pa.ArrowInvalid as error:
                raise pa.ArrowInvalid(str(error).replace(_UNIT, self.separator)) from None
        # Line breaks in values, empty lines, or a quote that swallows what follows.
        if len(table) < lines - header:
            rows = self._count_rows(file) - header
            if len(table) != rows:
                raise DataError(
                    f"{path_text(file)}: {len(table)} or {rows} rows, depending on how its quotes are read: a quote "
                    f"inside of a value must stand twice"
                )
        for name in ids:
            position = table.column_names.index(name)
            table = table.set_column(position, name, integers_or_text(table.column(position)))
        return table

    def _count_rows(self, file: File) -> int:
        """Return the number of rows, and refuse a quote that is never closed: the rows after it would be lost."""
        csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_VALUE))
        with _decoded(self._open(file)) as lines:
            reader = csv.reader(lines, strict=True, **self._dialect)
            rows, start = 0, 1
            try:
                for row in reader:
                    rows, start = rows + bool(row), reader.line_num + 1
            except csv.Error as error:
                raise DataError(
                    f"{path_text(file)}: line {start}: a quote is opened that is not closed as it should be, or a "
                    f"value has more than {_LONGEST_VALUE:,} characters: {error}"
                ) from None
        return rows

    @property
    def _dialect(self) -> dict[str, Any]:
        return {
            "delimiter": self.separator if self._is_plain else _UNIT,
            "quoting": csv.QUOTE_MINIMAL if self._is_plain else csv.QUOTE_NONE,
        }

    @property
    def _is_plain(self) -> bool:
        """Whether the separator is the one character that readers of CSV take."""
        return len(self.separator) == 1

    def _open(self, file: File) -> IO[bytes]:
        """Return the decompressed bytes, with a separator of one character."""
        stream = open_text(file)
        if self._is_plain:
            return stream
        return BytesIO(stream.read().replace(self.separator.encode(), _UNIT.encode()))


def _decoded(stream: IO[bytes]) -> TextIOWrapper:
    return TextIOWrapper(stream, encoding="utf-8-sig", newline="")


def integers_or_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return ids as int64 if they are integers apart from spaces around, as float64 if fractions, else as text."""
    for trim in (lambda text: text, pc.utf8_trim_whitespace):
        text = trim(column)
        if _match_all(text, r"^(0|-?[1-9][0-9]*)$"):  # as Python writes integers: no 007, -0 or +1
            try:
                return text.cast(pa.int64())
            except pa.ArrowInvalid:  # more than 64 bits
                return column
    if _match_all(column, r"^\s*[+-]?[0-9]+\s*$"):
        return column
    try:
        floats = column.cast(pa.float64())  # refused where ids are checked
    except pa.ArrowInvalid:
        return column
    return column if pc.any(pc.is_nan(floats)).as_py() else floats  # text such as nan, refused there by name


def _match_all(texts: pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern), skip_nulls=True).as_py())


@dataclass(frozen=True)
class JsonLines:
    """JSON lines in UTF-8: an object a line, also compressed (.gz, .bz2)."""

    def names(self, file: File) -> list[str]:
        """Return the keys of the first thousand objects."""
        return list(dict.fromkeys(key for _, row in islice(_objects(file), _HEAD) for key in row))

    def read(self, file: File, roles: Mapping[str, str]) -> pa.Table:
        """Return the requested columns; a key that a line lacks is null, and times may be text as in ISO 8601."""
        from pyarrow import json as arrow_json

        def read(types: Mapping[str, pa.DataType]) -> pa.Table:
            parse = arrow_json.ParseOptions(
                explicit_schema=pa.schema(types.items()), unexpected_field_behavior="ignore"
            )
            with open_text(file) as stream:
                return arrow_json.read_json(stream, arrow_json.ReadOptions(block_size=_JSON_BLOCK), parse)

        ids = {name for role, name in roles.items() if is_id(role)}
        types = self._types(file, roles.values(), ids)
        try:
            table = read(types)
        except pa.ArrowInvalid:
            self._types(file, roles.values(), ids, of_all=True)
            # Ratings, scores and times turn fractional behind the first value.
            table = read({n: t if n in ids or t != pa.int64() else pa.float64() for n, t in types.items()})
        return with_times(table, roles.get("timestamp"))

    def _types(
        self, file: File, names: Collection[str], ids: Collection[str], *, of_all: bool = False
    ) -> dict[str, pa.DataType]:
        """Return the type of the first value of each column, text without any; or look at all values.

        ``ids``: those of the names whose columns hold ids.

        Raises:
            DataError: A value is neither a number nor text, or of another type than the first one of its column.
        """
        first: dict[str, tuple[int, Any]] = {}
        for number, row in _objects(file):
            for name in names:
                if (value := row.get(name)) is None:
                    continue
                line, before = first.setdefault(name, (number, value))
                kinds_differ = _kind(value) != _kind(before)
                is_no_id = of_all and name in ids and not isinstance(value, str) and not _is_int64(value)
                if isinstance(value, list | dict) or kinds_differ or is_no_id:
                    rule = "the values of a column must be numbers, or all of them text or true and false"
                    rule = (
                        f"ids must be integers that fit into 64 bits, or text; {rule}" if is_no_id else rule
                    )
                    raise DataError(
                        f"{path_text(file)}: line {number}: {name!r} is {shorten(repr(value), 60)} (line {line}: "
                        f"{shorten(repr(before), 60)}): {rule}"
                    )
            if len(first) == len(set(names)) and not of_all:
                break
        kinds = {name: _JSON_TYPES.get(type(value), "string") for name, (_, value) in first.items()}
        return {name: pa.type_for_alias(kinds.get(name, "string")) for name in names}


def _kind(value: object) -> type:
    """Return the kind of a JSON value, which must be the same in a whole column: all numbers are one kind."""
    return type(value) if isinstance(value, bool | str) else float


def _is_int64(value: object) -> bool:
    return isinstance(value, int) and -(2**63) <= value < 2**63


def _objects(file: File) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number of each line, from 1, and its object.

    Raises:
        DataError: A line is no JSON object.
    """
    with _decoded(open_text(file)) as lines:
        for number, line in enumerate(lines, start=1):
            if line.isspace():
                continue
            row = None
            with suppress(ValueError, RecursionError):
                row = json.loads(line)
            if not isinstance(row, dict):
                raise DataError(
                    f"{path_text(file)}: line {number} is {shorten(line.strip(), 60)!r}, which is not a JSON object: "
                    f'each line must be one, such as {{"user": 1, "item": 2}}; jq -c .[] makes such lines of an array, '
                    f"jq -c . of objects on several lines"
                )
            yield number, row


def format_by_name(file: File, csv: CsvFormat) -> FileFormat:
    """Return the format that the ending of a file's name stands for: Parquet, JSON lines, or else CSV."""
    name = file.name.casefold()
    if name.endswith((".parquet", ".pq")):
        return ParquetFormat()
    plain = name.removesuffix(".gz").removesuffix(".bz2")
    return JsonLines() if plain.endswith((".json", ".jsonl", ".ndjson")) else csv


def with_times(table: pa.Table, column: str | None) -> pa.Table:
    """Return the table with times that are text, as in ISO 8601, as timestamps: JSON and SQLite have no such type."""
    if column is None or table.column(column).type not in (pa.string(), pa.large_string()):
        return table
    for unit, zone in product(("us", "ns"), (None, "UTC")):
        with suppress(pa.ArrowInvalid):
            times = table.column(column).cast(pa.timestamp(unit, zone))
            return table.set_column(table.column_names.index(column), column, times)
    return table


@dataclass(frozen=True)
class TrecFormat:
    """TREC's runs (``user q0 item trec_rank score tag``) and qrels (``user iteration item rating``)."""

    run: bool

    def names(self, file: File) -> list[str]:
        """Return the names of the values of a line."""
        return list(_RUN if self.run else _QRELS)

    def read(self, file: File, roles: Mapping[str, str]) -> pa.Table:
        """Return users and items as text, and the score or the rating."""
        names, number = self.names(file), "score" if self.run else "rating"
        columns = [*names, "more"]
        try:
            with _decoded(open_text(file)) as lines, warnings.catch_warnings():
                # Of values that are left out: see below.
                warnings.simplefilter("ignore", pd.errors.ParserWarning)
                frame = pd.read_csv(
                    lines,
                    sep=r"\s+",
                    names=columns,
                    index_col=False,
                    dtype=str,
                    quoting=3,
                    keep_default_na=False,
                    na_filter=False,
                    skip_blank_lines=False,  # so that the index is the number of the line
                )
        except pd.errors.ParserError as error:
            raise DataError(
                f"{path_text(file)}: cannot be read as TREC's {' '.join(names)}: {error}"
            ) from None
        frame = frame[frame["user"] != ""]
        odd = frame[(frame[names[-1]] == "") | (frame["more"] != "")]
        if len(odd):
            has = "more" if odd["more"].iloc[0] else int((odd.iloc[0] != "").sum())
            raise DataError(
                f"{path_text(file)}: line {odd.index[0] + 1}: a line of a TREC {'run' if self.run else 'qrels file'} "
                f"has {len(names)} values ({' '.join(names)}); this one has {has}"
            )
        values = pd.to_numeric(frame[number], errors="coerce")
        if len(wrong := frame[values.isna()]):
            raise DataError(
                f"{path_text(file)}: line {wrong.index[0] + 1}: the {number} must be a number, not "
                f"{wrong[number].iloc[0]!r}"
            )
        ids = {name: pa.array(frame[name], pa.large_string()) for name in ("user", "item")}
        return pa.table(ids | {number: pa.array(values)})
