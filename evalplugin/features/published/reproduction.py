"""Published values beside those that were measured."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

from evalplugin.base.numbers import span
from evalplugin.comparison.compared import Cell
from evalplugin.comparison.comparison import Comparison
from evalplugin.features.published.table import NO_VALUE, NamedTable, PublishedTable, Scale
from evalplugin.metrics import parse
from evalplugin.report.tables import TextCell, TextTable

Verdict = Literal["agrees", "explained", "stochastic", "differs", "failed", "unpublished"]
_GOOD = ("agrees", "explained", "stochastic", "unpublished")
_DIGITS = 4  # of a value that is not published: as most papers print


@dataclass(frozen=True)
class Value:
    """A published value, and what was measured."""

    model: str
    metric: str  # the publication's name, if it prints another scale
    published: str  # as it is printed; ``NO_VALUE`` where it is not
    measured: float  # on the scale of the publication
    low: float  # of the interval of the mean over users; NaN for a metric with one number for each model
    high: float
    seeds: tuple[float, ...] = ()  # the means of a model that draws random numbers, one for each seed
    within: float = 0.0  # the largest difference that the table has a reason for

    @property
    def digits(self) -> int:
        """The number of printed decimals."""
        return _DIGITS if self.published == NO_VALUE else len(self.published.partition(".")[2])

    @property
    def difference(self) -> float:
        """What was measured, less what was published."""
        return self.measured - float(self.published)

    @property
    def verdict(self) -> Verdict:
        """``agrees`` to the printed digit, or why it need not, or ``differs``; ``failed`` with its model.

        ``stochastic``: it is within the range of the seeds. ``explained``: it differs by no more than the table has a
        reason for. ``unpublished``: there is nothing that it could agree with.
        """
        if self.published == NO_VALUE:
            return "unpublished"
        if math.isnan(self.measured):
            return "failed"
        # A printed digit stands for half a unit in its place to both sides; the margin is of binary fractions.
        half = (0.5 + 1e-6) * 10.0**-self.digits
        if self.seeds and min(self.seeds) - half <= float(self.published) <= max(self.seeds) + half:
            return "stochastic"
        if abs(self.difference) <= half:
            return "agrees"
        return "explained" if abs(self.difference) <= self.within else "differs"

    @property
    def measured_text(self) -> str:
        """What was measured, with one digit more than was published; ``NO_VALUE`` if the model failed."""
        return NO_VALUE if math.isnan(self.measured) else f"{self.measured:.{self.digits + 1}f}"

    @property
    def verdict_text(self) -> str:
        """The verdict with the difference, for people."""
        if self.verdict in ("agrees", "failed"):
            return self.verdict
        if self.verdict == "unpublished":
            return "no published value"
        if self.verdict == "stochastic":
            low, high = (f"{seed:.{self.digits}f}" for seed in (min(self.seeds), max(self.seeds)))
            return f"stochastic: {len(self.seeds)} seeds give {low} to {high}"
        text = f"differs by {self.difference:+.{self.digits + 1}f}"
        return f"{text}, explained" if self.verdict == "explained" else text


@dataclass(frozen=True)
class Reproduction:
    """A published table, and what was measured for each of its values."""

    named: NamedTable
    values: tuple[Value, ...]

    @classmethod
    def of(cls, named: NamedTable, comparison: Comparison) -> Reproduction:
        """Return the values of a table, from the comparison of its models."""
        table = named.table
        rows = {row.model: row for row in comparison.models}
        values = []
        for model, texts in table.values.items():
            row = rows[model]
            for metric, published in zip(table.metrics, texts.split(), strict=True):
                name = parse(metric).name
                scale = table.scales.get(metric, Scale(name=name, times=1.0))
                cell = row.cells.get(name, Cell(name, math.nan))
                low, high = sorted((scale.printed(cell.low), scale.printed(cell.high)))
                seeds = tuple(scale.printed(means[name]) for means in row.seed_means)
                measured = scale.printed(cell.mean)
                reason = table.differences.get(model)
                within = 0.0 if reason is None else reason.within_of(metric)
                values.append(Value(model, scale.name, published, measured, low, high, seeds, within))
        return cls(named, tuple(values))

    @property
    def agrees(self) -> bool:
        """Whether each value agrees to the printed digit, or the table says why it need not."""
        return all(value.verdict in _GOOD for value in self.values)

    @property
    def summary(self) -> str:
        """How many values agree, in a sentence."""
        counts = Counter(value.verdict for value in self.values)
        words: dict[Verdict, str] = {
            "agrees": "agree to the printed digit",
            "stochastic": "are within the range of the seeds",
            "explained": "differ by what the publication leaves open",
            "differs": "differ",
            "failed": "were not measured, as their models failed",
        }
        found = [f"{counts[verdict]} {text}" for verdict, text in words.items() if counts[verdict]]
        text = f"{self.named.name}: of {len(self.values) - counts['unpublished']} values {', '.join(found)}"
        return f"{text}; {counts['unpublished']} more are not published" if counts["unpublished"] else text

    def as_mapping(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        values = [
            {
                "model": value.model,
                "metric": value.metric,
                "published": value.published,
                "measured": None if math.isnan(value.measured) else value.measured,
                "measured_text": value.measured_text,
                "verdict": value.verdict,
                "text": value.verdict_text,
            }
            for value in self.values
        ]
        return {"name": self.named.name, "agrees": self.agrees, "summary": self.summary, "values": values}

    @property
    def text_table(self) -> TextTable:
        """The values as a table, with the reasons for differences below it."""
        table = self.named.table
        rows = tuple(
            (
                TextCell(value.model),
                TextCell(value.metric),
                TextCell(value.published),
                TextCell(value.measured_text),
                TextCell(span(value.low, value.high)),
                TextCell(value.verdict_text, mark="" if value.verdict in _GOOD else "-"),
            )
            for value in self.values
        )
        source = table.source
        legend = [f"{source.title} {source.place} {source.url}"]
        legend += [*scale_lines(table), *reason_lines(table)]
        heads = ("model", "metric", "published", "measured", "95 % interval", "verdict")
        title = f"{self.named.name}: {table.title}"
        return TextTable(title, heads, rows, verdict=self.summary, legend=tuple(legend))


def scale_lines(table: PublishedTable) -> list[str]:
    """Return a line for each metric that the publication prints on another scale."""
    lines = []
    for metric, scale in table.scales.items():
        sign = "-" if scale.times < 0 else "+"
        sum_of = f"{scale.plus:g} {sign} {abs(scale.times):.6g}" if scale.plus else f"{scale.times:.6g}"
        lines.append(f"{scale.name}: {sum_of} × {metric}")
    return lines


def reason_lines(table: PublishedTable) -> list[str]:
    """Return a line for each reason of a table why values need not agree, with the models."""
    models: dict[str, list[str]] = {}
    for model, found in table.differences.items():
        models.setdefault(found.reason, []).append(model)
    return [f"{', '.join(names)}: {reason}" for reason, names in models.items()]
