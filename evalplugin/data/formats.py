"""File formats of tables: CSV, Parquet, and TREC's runs and qrels."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from io import TextIOWrapper
from typing import ClassVar, Protocol

from evalplugin.base.arrays import Ints
from evalplugin.base.errors import DataError
from evalplugin.base.libraries import np, pa, pc, pd
from evalplugin.data.reading import LineCounter, check_parquet, open_parquet, open_text, path_text
from evalplugin.data.tables import LARGE, Table, is_cluster
from evalplugin.files.remote import File

_RUN = ("user", "q0", "item", "trec_rank", "score", "tag")
_ID_ROLES = ("user", "item", "part")
_CHUNK = 2**16  # integers at a time, whose temporaries stay in the cache
_QRELS = ("user", "iteration", "item", "rating")


class FileFormat(Protocol):
    """Reader of one file, inside of ``readable``, which turns its errors into DataErrors."""

    ids_are_written: ClassVar[
        bool
    ]  # as text, in which integers are only recognized: they can be read as text too

    def names(self, file: File) -> list[str]:
        """Return the names of the columns."""

    def read(self, file: File, roles: Mapping[str, str]) -> pa.Table:
        """Return the requested columns, by role, such as ``{"user": "user_id"}``."""


@dataclass(frozen=True)
class ParquetFormat:
    """Parquet."""

    ids_are_written: ClassVar[bool] = False

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
    """CSV in UTF-8, also compressed (.gz, .bz2).

    A column of ids holds integers if every id is an integer as Python writes it. Where one has a leading zero, a plus
    or more than 64 bits, all stay text, so that ``01`` and ``1`` differ. The types of other columns are inferred.
    """

    ids_are_written: ClassVar[bool] = True
    separator: str = ","
    columns: Sequence[str] | None = None  # names of all columns, for files without a header line
    text: Collection[str] | None = ()  # roles of columns whose values are read as text; None: all

    def names(self, file: File) -> list[str]:
        """Return the names in the header line, or those given; none for an empty file."""
        with _lines(file) as lines:
            names = next(csv.reader(lines, delimiter=self.separator), [])
        if any("\n" in name for name in names):
            raise DataError(f"{path_text(file)}: line 1: a quote is opened that is not closed")
        return list(self.columns) if self.columns else names

    def read(self, file: File, roles: Mapping[str, str]) -> pa.Table:
        """Return the requested columns; empty values are null."""
        from pyarrow import csv as arrow_csv

        as_text = roles if self.text is None else self.text
        ids = {
            name
            for role, name in roles.items()
            if (role in _ID_ROLES or is_cluster(role)) and role not in as_text
        }
        text = {name for role, name in roles.items() if role in as_text}
        # An empty text is a missing value; words such as NA or null are not.
        convert = arrow_csv.ConvertOptions(
            include_columns=list(dict.fromkeys(roles.values())),
            column_types=dict.fromkeys(ids | text, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
        )

        def read(*, use_threads: bool = True, line_breaks: bool = False) -> tuple[pa.Table, int]:
            options = arrow_csv.ReadOptions(use_threads=use_threads, column_names=self.columns)
            parse = arrow_csv.ParseOptions(delimiter=self.separator, newlines_in_values=line_breaks)
            with open_text(file) as stream:
                counter = LineCounter(stream)
                return arrow_csv.read_csv(counter, options, parse, convert), counter.lines

        try:
            table, lines = read()
        except pa.ArrowInvalid:
            table, lines = read(use_threads=False)  # only a single thread knows at which row it fails
        header = 0 if self.columns else 1
        # Line breaks in values, empty lines, or a quote that swallows what follows.
        if len(table) < lines - header:
            rows = self._count_rows(file) - header
            table, _ = read(line_breaks=True)
            if len(table) != rows:
                raise DataError(
                    f"{path_text(file)}: {len(table)} or {rows} rows, depending on how its quotes are read: a quote "
                    f"inside of a value must stand twice"
                )
        for name in ids:
            position = table.column_names.index(name)
            table = table.set_column(position, name, integers_or_text(table.column(position)))
        for name in {name for role, name in roles.items() if role.startswith("score")}:
            scores = table.column(name)
            if (
                pa.types.is_floating(scores.type)
                and pc.any(pc.greater_equal(pc.abs(scores), 2.0**53)).as_py()
            ):
                texts = replace(self, text=("score",)).read(file, {"score": name})
                _refuse_large_integers(Table(texts, path_text(file)), name, scores)
        return table

    def _count_rows(self, file: File) -> int:
        """Return the number of rows, and refuse a quote that is never closed: the rows after it would be lost."""
        with _lines(file) as lines:
            reader = csv.reader(lines, delimiter=self.separator, strict=True)
            rows, start = 0, 1
            try:
                for row in reader:
                    rows, start = rows + bool(row), reader.line_num + 1
            except csv.Error as error:
                raise DataError(
                    f"{path_text(file)}: line {start}: a quote is opened that is not closed as it should be: {error}"
                ) from None
        return rows


def _lines(file: File) -> TextIOWrapper:
    return TextIOWrapper(open_text(file), encoding="utf-8-sig", newline="")


def _refuse_large_integers(texts: Table, name: str, numbers: pa.ChunkedArray) -> None:
    """Refuse scores that are integers in a column of texts, and ``numbers`` that float64 rounds."""
    large = pc.greater_equal(pc.abs(numbers), 2.0**53)
    integers = pc.match_substring_regex(texts.arrow(name), r"^\s*[+-]?[0-9]+\s*$")
    if len(rows := np.flatnonzero(pc.fill_null(pc.and_(large, integers), False))):
        texts.refuse(name, int(rows[0]), LARGE, count=len(rows))


def integers_or_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return ids as int64 if they are integers apart from spaces around, as float64 if fractions, else as text."""
    for trim in (lambda text: text, pc.utf8_trim_whitespace):
        text = trim(column)
        try:
            integers = text.cast(pa.int64())
        except pa.ArrowInvalid:
            continue
        if _are_canonical(text, integers):
            return integers
    if pc.all(pc.match_substring_regex(column, r"^\s*[+-]?[0-9]+\s*$"), skip_nulls=True).as_py():
        return column
    try:
        return column.cast(pa.float64())  # refused where ids are checked
    except pa.ArrowInvalid:
        return column


def _are_canonical(text: pa.ChunkedArray, integers: pa.ChunkedArray) -> bool:
    """Return whether texts that Arrow reads as ``integers`` are as Python writes these: no ``007``, ``-0`` or ``0x7``.

    Apart from hexadecimal ones, none is shorter than Python's, so that equal total lengths mean equal texts.
    """
    length = 0
    for texts in filter(len, text.chunks):
        _, offsets, characters = texts.buffers()
        first, last = np.frombuffer(offsets, dtype=np.int32)[
            [texts.offset, texts.offset + len(texts)]
        ].tolist()
        if last > first and np.frombuffer(characters, dtype=np.uint8)[first:last].max() > ord("9"):
            return False
        length += last - first
    return length == sum(_total_length(values.to_numpy()) for values in integers.drop_null().chunks)


def _total_length(integers: Ints) -> int:
    """Return the number of characters of integers as Python writes them."""
    length = len(integers)
    for low in range(0, len(integers), _CHUNK):
        part = integers[low : low + _CHUNK]
        size = np.abs(part).view(np.uint64)  # the lowest integer has no opposite, but fits without a sign
        length += int(np.count_nonzero(part < 0))
        length += sum(int(np.count_nonzero(size >= 10**power)) for power in range(1, len(str(size.max()))))
    return length


@dataclass(frozen=True)
class TrecFormat:
    """TREC's runs (``user q0 item trec_rank score tag``) and qrels (``user iteration item rating``)."""

    ids_are_written: ClassVar[bool] = False  # always read as text

    run: bool

    def names(self, file: File) -> list[str]:
        """Return the names of the values of a line."""
        return list(_RUN if self.run else _QRELS)

    def read(self, file: File, roles: Mapping[str, str]) -> pa.Table:
        """Return users and items as text, and the score or the rating."""
        names, number = self.names(file), "score" if self.run else "rating"
        columns = [*names, "more"]
        try:
            with _lines(file) as lines, warnings.catch_warnings():
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
        values = pd.to_numeric(frame[number], errors="coerce").astype(np.float64)
        if self.run:
            lines_of = Table(frame, path_text(file), lambda row: f"line {frame.index[row] + 1}")
            _refuse_large_integers(lines_of, number, pa.array(values))
        if len(wrong := frame[values.isna()]):
            raise DataError(
                f"{path_text(file)}: line {wrong.index[0] + 1}: the {number} must be a number, not "
                f"{wrong[number].iloc[0]!r}"
            )
        ids = {name: pa.array(frame[name], pa.large_string()) for name in ("user", "item")}
        return pa.table(ids | {number: pa.array(values)})
