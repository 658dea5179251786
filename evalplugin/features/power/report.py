"""Power in tables and sentences."""

from __future__ import annotations

from collections.abc import Iterator

from evalplugin.base.numbers import number
from evalplugin.base.places import DataSplit
from evalplugin.base.units import plural
from evalplugin.features.power.power import PowerReport
from evalplugin.report.table import Table, numbers, text_rows, words

_MARGINS = " Gains are those that are shown to be above min_gain ({margins})."
_MEASURED = "--gain tells what a gain needs; a measured one may be chance."


def power_tables(report: PowerReport) -> Iterator[Table]:
    """Yield a table for each dataset and split, with a row for each spread."""
    for place in dict.fromkeys(map(DataSplit.of, report.rows)):
        rows = [row for row in report.rows if DataSplit.of(row) == place]
        named = any(row.model for row in rows)
        units = plural(rows[0].unit)
        is_planned = any(row.is_planned for row in rows)
        shown = []
        for row in rows:
            names = [row.metric, row.model, row.against] if named else [row.origin]
            cells = [number(row.sd), f"{row.users:,}", _gain(row.detectable)]
            if is_planned:
                needed = row.users_needed if row.is_planned else None
                cells += [_gain(row.gain if row.is_planned else None)]
                cells += ["" if needed is None else f"{needed:,} {units}"]
            shown.append((*names, *cells))
        heads = words("metric", "model", "against") if named else words("spread")
        planned = ("gain", "it needs") if is_planned else ()
        columns = (*heads, *numbers("sd", units, "they find", *planned))
        yield Table(str(place), columns, text_rows(shown))


def power_lines(report: PowerReport) -> Iterator[str]:
    """Yield the test, the meaning of the gains, and the notes."""
    margins = sorted({row.margin for row in report.rows if row.margin})
    above = _MARGINS.format(margins=", ".join(map(number, margins))) if margins else ""
    yield f"Test: {report.test.words}.{above}"
    if any(row.measured and not row.is_planned for row in report.rows):
        yield _MEASURED
    for note in report.notes:
        yield f"{note}."


def _gain(value: float | None) -> str:
    return "" if value is None else number(value)
