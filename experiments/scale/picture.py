"""Draw the tables of all studies beyond one machine as one picture, scale.png.

python experiments/scale/picture.py
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import matplotlib as mpl
import pandas as pd

from evalplugin.report.charts.palette import BASELINE_COLOUR, PALETTE

mpl.use("Agg")
import matplotlib.pyplot as plt

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
INK, QUIET, GRID = "#1A1A1A", "#6B6B6B", "#E4E4E4"
BOUND = 2048  # MB a worker, the bound that the studies of rows ask for


def main() -> None:
    """Write the picture."""
    tables = {name: table_of(name) for name in ("ray_nodes", "spark", "score_rows", "s3")}
    figure, ((ray, spark), (rows, memory)) = plt.subplots(2, 2, figsize=(9.6, 6.8), layout="constrained")
    for axes, name, draw in ((ray, "ray_nodes", draw_nodes), (spark, "spark", draw_spark)):
        if (table := tables[name]) is not None:
            draw(axes, table)
    names = {"local Parquet": "score_rows", "S3": "s3"}
    scored = [(source, table) for source, name in names.items() if (table := tables[name]) is not None]
    draw_rows(rows, scored, "seconds", "Seconds to score lists from Parquet")
    draw_rows(memory, scored, "worker_mb", "Memory of a worker, MB")
    memory.axhline(BOUND, color=QUIET, linewidth=1, linestyle=":")
    memory.annotate("2 GB", (1, BOUND), xycoords=("axes fraction", "data"), xytext=(-2, 3),
                    textcoords="offset points", ha="right", color=QUIET, fontsize=8)  # fmt: skip
    figure.savefig(HERE / "scale.png", dpi=120, metadata={"Software": None})


def style_axes(axes: Axes, grid: Literal["x", "both"]) -> None:
    """Draw axes without frame and ticks: quiet labels, a grid behind the data."""
    axes.tick_params(length=0, labelsize=10, labelcolor=QUIET)
    axes.grid(axis=grid, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)


def table_of(study: str) -> pd.DataFrame | None:
    """Return the table of a study; None where it was not run."""
    file = RESULTS / f"{study}.csv"
    return pd.read_csv(file) if file.exists() else None


def draw_nodes(axes: Axes, table: pd.DataFrame) -> None:
    """Draw the seconds of equal tasks on one node, on two, and on two of which one is killed."""
    first = table.seconds.iloc[0]
    draw_bars(
        axes,
        f"Ray: seconds of {table.tasks.iloc[0]} equal tasks",
        [
            (
                row.setup,
                row.seconds,
                f"{row.seconds:.1f} s" + (f", {first / row.seconds:.2f} times" if i else ""),
            )
            for i, row in enumerate(table.itertuples())
        ],
    )


def draw_spark(axes: Axes, table: pd.DataFrame) -> None:
    """Draw the seconds of Spark's metrics by library, for the most rows that all have scored."""
    shared = set.intersection(*(set(part.rows) for _, part in table.groupby("library")))
    part = table[table.rows == max(shared)].set_index("library").seconds
    reference = part["RePlay"]
    bars = [("RePlay", reference, f"{reference:.1f} s")]
    for library, seconds in part.drop("RePlay").sort_values(ascending=False).items():
        times = f", {reference / seconds:.1f} times" if seconds < reference else ""
        bars.append((str(library), seconds, f"{seconds:.1f} s{times}"))
    draw_bars(axes, f"Spark: seconds for {max(shared):,} list rows", bars)


def draw_bars(axes: Axes, title: str, bars: list[tuple[str, float, str]]) -> None:
    """Draw bars with their values; the first one is what the others are measured by."""
    style_axes(axes, "x")
    for place, (name, value, label) in enumerate(bars):
        axes.barh(place, value, color=PALETTE[0] if place else BASELINE_COLOUR, height=0.6)
        axes.annotate(
            label,
            (value, place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            color=INK,
            fontsize=8,
        )
        axes.annotate(name, (0, place), xytext=(-4, 0), textcoords="offset points", va="center", ha="right", color=INK,
                      fontsize=8, annotation_clip=False)  # fmt: skip
    axes.tick_params(labelsize=8)
    axes.set_yticks([])
    axes.invert_yaxis()
    axes.set_xlim(0, max(value for _, value, _ in bars) * 1.3)
    axes.set_title(title, loc="left", fontsize=9, color=INK)


def draw_rows(axes: Axes, sources: list[tuple[str, pd.DataFrame]], column: str, title: str) -> None:
    """Draw a column by the number of list rows, a line for each source, way and number of workers."""
    style_axes(axes, "both")
    colours = iter(PALETTE)
    for source, table in sources:
        for (way, workers), part in table.groupby(["way", "workers"], sort=False):
            part = part.sort_values("rows")
            colour = next(colours)
            label = f"{source}, {way}, {workers} worker{'s' * (workers > 1)}"
            axes.plot(part.rows, part[column], "o-", color=colour, markersize=4, linewidth=1.4, label=label)
    axes.tick_params(labelsize=8)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda rows, _: words_of(rows))
    if column == "seconds":
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.legend(fontsize=7, frameon=False, loc="lower right")
    else:
        axes.set_ylim(0, BOUND * 1.15)
    axes.minorticks_off()
    axes.set_title(title, loc="left", fontsize=9, color=INK)


def words_of(rows: float) -> str:
    """Return a number of list rows in words, such as 10 million rows."""
    unit, name = (1e9, "billion") if rows >= 1e9 else (1e6, "million")
    return f"{rows / unit:g} {name} rows"


if __name__ == "__main__":
    main()
