"""Files of per-user scores, and tables of means for other programs."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

import numpy as np

from evalplugin.base.errors import DataError
from evalplugin.base.libraries import pa, pq
from evalplugin.base.text import escape_formula
from evalplugin.data.reading import readable
from evalplugin.files.outputs import check_writable, open_table
from evalplugin.lists.scores import ListScores
from evalplugin.metrics.scores import PerUserScores

_ENDINGS = (".parquet", ".csv")


@dataclass(frozen=True)
class Row:
    """One metric in a table of results; NaN for a value that it does not have."""

    metric: str
    mean: float
    low: float  # of the 95 % interval of the mean over users
    high: float
    users: int  # for whom it is defined
    undefined: int


def rows_of(scores: ListScores) -> list[Row]:
    """Return a row for each metric, in the order of the scores; metrics of all lists together are last."""
    rows = []
    for name, mean in scores.means.items():
        if name in scores.counts:
            interval, counts = scores.interval(name), scores.counts[name]
            rows.append(Row(name, mean, interval.low, interval.high, counts.users, counts.undefined))
        else:
            rows.append(Row(name, mean, math.nan, math.nan, len(scores.scores.users), 0))
    return rows


def json_text(rows: Sequence[Row]) -> str:
    """Return the rows as a JSON object by metric; undefined values are null."""
    values = {
        row.metric: {key: _defined(value) for key, value in vars(row).items() if key != "metric"}
        for row in rows
    }
    return json.dumps(values, indent=2, ensure_ascii=False)


def csv_text(rows: Sequence[Row]) -> str:
    """Return the rows as CSV with a header line; undefined values are empty."""
    return _csv(Row.__dataclass_fields__, (vars(row).values() for row in rows))


def numbers_json(numbers: Mapping[str, float]) -> str:
    """Return numbers by name as a JSON object; undefined values are null."""
    return json.dumps({name: _defined(value) for name, value in numbers.items()}, indent=2)


def numbers_csv(numbers: Mapping[str, float]) -> str:
    """Return numbers by name as CSV with a header line; undefined values are empty."""
    return _csv(("metric", "value"), numbers.items())


def _csv(names: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_defined(value) for value in row] for row in rows)
    return text.getvalue().rstrip("\n")


def _defined(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_output(path: str | Path) -> None:
    """Check, before any work is done, that a file of per-user scores can be written, which may be a URI.

    Raises:
        DataError: Another suffix than .parquet or .csv, a folder that is missing or cannot be written to, or a store
            that cannot be reached.
    """
    suffix = PurePath(path).suffix
    if suffix.casefold() not in _ENDINGS:
        raise DataError(f"{path}: per-user scores are written as {' or '.join(_ENDINGS)}, not {suffix!r}")
    with readable(path):
        check_writable(path)


def write_per_user(scores: PerUserScores, path: str | Path) -> None:
    """Write one row a user; the file is never partial.

    Raises:
        DataError: The file cannot be written.
    """
    users = scores.users
    table: pa.Table = pa.table(
        {"user": pa.array(users.tolist() if users.dtype == object else users)}
        | {name: pa.array(np.ascontiguousarray(scores.column(name))) for name in scores.metrics}
    )
    with open_table(path) as (file, is_parquet):
        if is_parquet:
            pq.write_table(table, file, compression="zstd")
            return
        frame = table.to_pandas()
        if users.dtype == object:
            frame["user"] = [escape_formula(user) for user in users.tolist()]
        frame.to_csv(file, index=False)
