"""Files of tables: found by name or pattern, read one by one, and joined into ``Interactions``."""

from __future__ import annotations

import glob
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evalplugin.base.errors import DataError, Problem, did_you_mean
from evalplugin.data.encoding import encode
from evalplugin.data.interactions import DuplicatePolicy, Interactions

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Columns", "check_files", "find_files", "read_files", "unused_rating"]

_LIKE_RATINGS = ("rating", "ratings", "score", "stars")


@dataclass(frozen=True)
class Columns:
    """Which column is what, and what is done with a pair that stands twice."""

    user: str
    item: str
    rating: str | None
    timestamp: str | None
    duplicates: DuplicatePolicy


def check_files(base: Path, path: str, inside: str | None = None) -> list[Problem]:
    """Return a problem if the path means no file; see ``find_files``."""
    try:
        find_files(base, path, inside)
    except DataError as error:
        return [Problem(("path",), str(error))]
    return []


def find_files(base: Path, path: str, inside: str | None = None) -> list[Path]:
    """Return the files that a path means, sorted: a file, a pattern, or a folder where ``inside`` is a pattern.

    Raises:
        DataError: There is no such file.
    """
    full = base / Path(path).expanduser()
    if full.is_file():
        return [full]
    if full.is_dir():
        if inside is None:
            raise DataError(
                f"{full} is a folder, not a file; name its files by a pattern such as {path}/*.csv"
            )
        files = sorted(f for f in full.rglob(inside) if f.is_file())
        if not files:
            raise DataError(f"no {inside} file in the folder {full}")
        return files
    # The base is a folder and no pattern, whatever its name looks like.
    pattern = path if Path(path).is_absolute() else f"{glob.escape(str(base))}/{path}"
    files = sorted(
        f for f in map(Path, glob.glob(str(Path(pattern).expanduser()), recursive=True)) if f.is_file()
    )
    if not files:
        if glob.has_magic(path):
            raise DataError(f"no file matches {full}")
        siblings = sorted(p.name for p in full.parent.iterdir()) if full.parent.is_dir() else []
        near = did_you_mean(full.name, siblings)
        raise DataError(f"file not found: {full}{near if 'mean' in near else ''}")
    return files


def read_files(
    files: Sequence[Path],
    columns: Columns,
    *,
    columns_of: Callable[[Path], list[str]],
    read: Callable[[Path, list[str]], pa.Table],
    report: Callable[[str, float | None], None],
) -> Interactions:
    """Return the interactions of all files in turn.

    Args:
        files: Tables of the same columns.
        columns: Which of these are read, as what.
        columns_of: Returns the names of a file's columns.
        read: Returns some columns of a file.
        report: Is told of each file.

    Raises:
        DataError: A file cannot be read, or is unlike the first one, or breaks a rule of ``Interactions``.
    """
    import pandas as pd
    import pyarrow as pa

    source = str(files[0]) if len(files) == 1 else f"{files[0].parent} ({len(files)} files)"
    roles = {
        "user": columns.user,
        "item": columns.item,
        "rating": columns.rating,
        "timestamp": columns.timestamp,
    }
    wanted = list(dict.fromkeys(name for name in roles.values() if name is not None))
    first: list[str] = []
    tables: list[pa.Table] = []
    for number, file in enumerate(files):
        report(f"reading {file.name}", number / len(files))
        try:
            found = columns_of(file)
            if not found:
                raise DataError(f"{file} is empty: it has no line with the names of its columns")
            first = first or found
            if set(found) != set(first):
                odd = sorted(set(found) ^ set(first))
                raise DataError(
                    f"{file}: its columns are not those of {files[0].name}: {', '.join(map(repr, odd))} "
                    f"{'is' if len(odd) == 1 else 'are'} in one of them only"
                )
            for role, name in roles.items():
                if name is not None and name not in found:
                    hint = did_you_mean(name, found, noun="columns")
                    raise DataError(f"{file}: no {role} column {name!r}{hint}")
                if found.count(str(name)) > 1:
                    raise DataError(f"{file}: {found.count(str(name))} columns are called {name!r} ({role})")
            table = read(file, wanted)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{file}: cannot be read: {error}") from None
        tables.append(_dates_as_times(table, columns.timestamp))
    whole = _joined(tables, files)
    # Arrow's own integers can be missing without becoming floats.
    frame = whole.to_pandas(
        types_mapper=lambda kind: pd.ArrowDtype(kind) if pa.types.is_integer(kind) else None
    )
    ends = np.cumsum([len(table) for table in tables])

    def place(row: int) -> str:
        number = int(np.searchsorted(ends, row, side="right"))
        before = int(ends[number - 1]) if number else 0
        of = "" if len(files) == 1 else f" of {files[number].name}"
        return f"row {row - before + 1}{of} (counted from 1)"

    data = encode(
        frame,
        user=columns.user,
        item=columns.item,
        rating=columns.rating,
        timestamp=columns.timestamp,
        duplicates=columns.duplicates,
        source=source,
        place=place,
    )
    return data.noting(*unused_rating(columns.rating, first))


def _joined(tables: Sequence[pa.Table], files: Sequence[Path]) -> pa.Table:
    """Return all tables as one; numbers of several widths become the widest."""
    import pyarrow as pa

    full = [(table, file) for table, file in zip(tables, files, strict=True) if len(table)] or [
        (tables[0], files[0])
    ]
    for table, file in full[1:]:
        for field, expected in zip(table.schema, full[0][0].schema, strict=True):
            ours, theirs = (
                pa.types.is_integer(f.type) or pa.types.is_floating(f.type) for f in (field, expected)
            )
            if ours != theirs and field.type != pa.null():
                raise DataError(
                    f"{file}: column {field.name!r} is {field.type}, but {expected.type} in {full[0][1].name}"
                )
    try:
        return pa.concat_tables([table for table, _ in full], promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(f"{files[0].parent}: the files' columns are of different types: {error}") from None


def _dates_as_times(table: pa.Table, timestamp: str | None) -> pa.Table:
    import pyarrow as pa

    if timestamp is None or not pa.types.is_date(table.schema.field(timestamp).type):
        return table
    place = table.schema.get_field_index(timestamp)
    return table.set_column(place, timestamp, table.column(place).cast(pa.timestamp("s")))


def unused_rating(rating: str | None, columns: Sequence[str]) -> list[str]:
    """Return a note for each column that looks like ratings where none is named as such."""
    if rating is not None:
        return []
    unused = [name for name in columns if name.casefold() in _LIKE_RATINGS]
    return [
        f"column {name!r} was not used, as no rating column is named: every rating is 1.0" for name in unused
    ]
