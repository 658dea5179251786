"""Data cards in words, tables and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evalplugin.base.numbers import count_range, number, share
from evalplugin.base.units import count_text, plural
from evalplugin.data.times import is_date, time_text
from evalplugin.features.data_card.card import DataCard, Inequality, Rating, Seconds, SplitCard
from evalplugin.report.palette import INK, PALETTE, QUIET, png_of, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CURVE_SHARE = 10  # position on the curve: the first 20 %
_DAYS = 86_400


def card_title(card: DataCard) -> str:
    """Return what a dataset holds, in a line."""
    return f"{card.name} ({card.type}): {sizes_text(card)}"


def sizes_text(card: DataCard) -> str:
    """Return the numbers of interactions, users and items."""
    return (
        f"{count_text(card.interactions, 'interaction')} of {count_text(card.users, 'user')} with "
        f"{count_text(card.items, 'item')}"
    )


def card_facts(card: DataCard) -> list[tuple[str, str]]:
    """Return what else there is to know about a dataset: names and values."""
    return [
        ("density", f"{100 * card.density:.3g} % of all pairs of user and item"),
        ("time", _time_text(card)),
        ("per user", _inequality_text(card.by_user)),
        ("per item", _inequality_text(card.by_item)),
        (
            "long tail",
            f"{share(card.long_tail)} of the interactions are outside the most popular 20 % of the items",
        ),
        ("ratings", _ratings_text(card)),
        *(("note", note) for note in card.notes),
        ("digest", card.digest),
    ]


def split_heads(card: DataCard) -> tuple[str, ...]:
    """Return the heads of ``split_rows``."""
    units = " or ".join(dict.fromkeys(plural(split.unit) for split in card.splits)) or "users"
    return (
        "split",
        "folds",
        "train",
        "test",
        f"test {units}",
        f"cold {units}",
        "cold items",
        "cold interactions",
    )


def split_rows(card: DataCard) -> list[tuple[str, ...]]:
    """Return a row for each split, below ``split_heads``; shares are over all folds."""
    counts = ("train_interactions", "test_interactions", "test_users")
    return [
        (
            split.name,
            str(len(split.folds)),
            *(count_range([getattr(fold, name) for fold in split.folds]) for name in counts),
            *map(share, split.cold_shares().values()),
        )
        for split in card.splits
    ]


def card_markdown(card: DataCard, sizes: str | None) -> list[str]:
    """Return a card as lines of Markdown; ``sizes``: a line on its sizes then and now."""
    from evalplugin.report.markdown import escape, markdown_table

    lines = [f"**{escape(card_title(card))}**", ""]
    if sizes is not None:
        lines += [escape(sizes), ""]
    lines += markdown_table(split_heads(card), [[*map(escape, row)] for row in split_rows(card)])
    return [*lines, "", *(f"- {name}: {escape(text)}" for name, text in card_facts(card)), ""]


def card_picture(card: DataCard) -> bytes:
    """Return a PNG with the popularity of items, interactions over time with the cuts of the splits, and ratings."""
    from matplotlib.figure import Figure

    panels = [_draw_popularity]
    panels += [_draw_times] if card.times is not None else []
    panels += [_draw_ratings] if card.ratings is not None else []
    width = 4.2 * len(panels)  # inches
    figure = Figure(figsize=(width, 3.4), dpi=100)
    # A layout that Matplotlib finds takes longer than the drawing.
    place = {"left": 0.6 / width, "right": 1 - 0.2 / width, "bottom": 0.17, "top": 0.9, "wspace": 0.25}
    row = figure.subplots(1, len(panels), squeeze=False, gridspec_kw=place)[0]
    for draw, axes in zip(panels, row, strict=True):
        style_axes(axes, QUIET, grid="y")
        draw(axes, card)
    return png_of(figure)


def _time_text(card: DataCard) -> str:
    if card.times is None:
        return "no timestamps"
    first, last = card.times.first, card.times.last
    text = f"{time_text(first)} to {time_text(last)}"
    return f"{text}, {(last - first) / _DAYS:,.0f} days" if is_date(first) and is_date(last) else text


def _inequality_text(part: Inequality) -> str:
    counts = part.percentiles
    return (
        f"{counts['0']:,} to {counts['100']:,} interactions, median {counts['50']:,}; the busiest 20 % have "
        f"{share(part.curve[_CURVE_SHARE])}; Gini {number(part.gini, 2)}"
    )


def _ratings_text(card: DataCard) -> str:
    if card.ratings is None:
        return "none: every interaction counts 1"
    return ", ".join(
        f"{rating_text(rating)}: {share(rating.interactions / card.interactions)}"
        for rating in card.ratings
        if rating.interactions
    )


def rating_text(rating: Rating) -> str:
    """Return the bounds of a class of ratings, one number where they are equal."""
    return f"{rating.low:g}" if rating.low == rating.high else f"{rating.low:g} to {rating.high:g}"


def _draw_popularity(axes: Axes, card: DataCard) -> None:
    x = np.linspace(0, 100, len(card.by_item.curve))
    for name, part, colour in (("items", card.by_item, PALETTE[0]), ("users", card.by_user, PALETTE[1])):
        label = f"{name}: Gini {number(part.gini, 2)}"
        axes.plot(x, [100 * y for y in part.curve], color=colour, linewidth=2.5, label=label)
    axes.plot([0, 100], [0, 100], color=QUIET, linewidth=1, linestyle=(0, (3, 3)))
    axes.set_xlabel("% of items or users, most interactions first", color=QUIET)
    _titled(axes, "% of the interactions that they have")
    axes.legend(frameon=False, loc="lower right", fontsize=10)


def _draw_times(axes: Axes, card: DataCard) -> None:
    assert card.times is not None
    first, last, counts = card.times.first, card.times.last, card.times.interactions
    edges = np.linspace(first, last, len(counts) + 1)
    axes.stairs(counts, edges, fill=True, color=PALETTE[0], alpha=0.6)
    for split in card.splits:
        for cut in cuts_of(split):
            axes.axvline(cut, color=PALETTE[1], linewidth=1.5)
    axes.set_xlim(first, max(last, first + 1))
    ticks = [first, (first + last) // 2]
    axes.set_xticks(ticks, [time_text(tick) for tick in ticks])
    cut = any(list(cuts_of(split)) for split in card.splits)
    axes.set_xlabel("time; line: where train ends and test begins" if cut else "time", color=QUIET)
    _titled(axes, "interactions")


def cuts_of(split: SplitCard) -> Sequence[Seconds]:
    """Return the first time of the test data of each fold whose train data is all older."""
    return [
        fold.test_first
        for fold in split.folds
        if fold.test_first is not None and fold.train_last is not None and fold.train_last <= fold.test_first
    ]


def _draw_ratings(axes: Axes, card: DataCard) -> None:
    assert card.ratings is not None
    names = [f"{rating.low:g}" for rating in card.ratings]
    counts = [rating.interactions for rating in card.ratings]
    axes.bar(range(len(names)), counts, color=PALETTE[0], alpha=0.6)
    step = max(1, len(names) // 10)
    axes.set_xticks(range(0, len(names), step), names[::step])
    axes.set_xlabel("rating", color=QUIET)
    _titled(axes, "interactions")


def _titled(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=11, color=INK)
