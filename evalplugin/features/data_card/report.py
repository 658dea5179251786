"""Data cards in words, tables and charts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from evalplugin.base.numbers import count_range, number, rounded, share
from evalplugin.base.units import count_text, plural
from evalplugin.data.times import is_date, time_text
from evalplugin.features.data_card.card import DataCard, Inequality, Rating, Seconds, SplitCard, Times
from evalplugin.report.charts.pictures import Chart
from evalplugin.report.render.markdown import escape, table_lines
from evalplugin.report.table import Table, numbers, text_rows, words

_CURVE_SHARE = 10  # position on the curve: the first 20 %
_DAYS = 86_400


def card_title(card: DataCard) -> str:
    """Return the name, the type and the sizes of a dataset in one line."""
    return f"{card.name} ({card.type}): {sizes_text(card)}"


def sizes_text(card: DataCard) -> str:
    """Return the numbers of interactions, users and items."""
    return (
        f"{count_text(card.interactions, 'interaction')} of {count_text(card.users, 'user')} with "
        f"{count_text(card.items, 'item')}"
    )


def card_facts(card: DataCard) -> list[tuple[str, str]]:
    """Return further facts about a dataset: names and values."""
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


def splits_table(card: DataCard, split: str | None = None) -> Table:
    """Return a row for each split, or for a named one alone if the card has it; shares are over all folds."""
    splits = [own for own in card.splits if own.name == split] or card.splits
    units = " or ".join(dict.fromkeys(plural(split.unit) for split in card.splits)) or "users"
    sizes = numbers("folds", "train", "test", f"test {units}")
    cold = numbers(f"cold {units}", "cold items", "cold interactions")
    counts = ("train_interactions", "test_interactions", "test_users")
    rows = (
        (
            own.name,
            str(len(own.folds)),
            *(count_range([getattr(fold, name) for fold in own.folds]) for name in counts),
            *map(share, own.cold_shares().values()),
        )
        for own in splits
    )
    return Table(card_title(card), (*words("split"), *sizes, *cold), text_rows(rows))


def card_markdown(card: DataCard, sizes: str | None) -> list[str]:
    """Return a card as lines of Markdown; ``sizes``: a line on its sizes then and now."""
    lines = [f"**{escape(card_title(card))}**", ""]
    if sizes is not None:
        lines += [escape(sizes), ""]
    lines += table_lines(splits_table(card))
    return [*lines, "", *(f"- {name}: {escape(text)}" for name, text in card_facts(card)), ""]


def card_figures(card: DataCard, splits: Sequence[SplitCard]) -> Iterator[dict[str, Any]]:
    """Yield figures of the page: the popularity of items, interactions over time with the cuts of splits, ratings."""
    yield _popularity(card)
    if card.times is not None:
        yield _times(card.times, [cut for split in splits for cut in cuts_of(split)])
    if card.ratings is not None:
        yield _ratings(card.ratings)


def _popularity(card: DataCard) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for name, part, colour, label_y in (
        ("items", card.by_item, "var(--accent)", 0.17),
        ("users", card.by_user, "var(--quiet)", 0.07),
    ):
        model = f"{name}, Gini {number(part.gini, 2)}"
        for position, y in enumerate(part.curve):
            x = position / (len(part.curve) - 1)
            row = {"model": model, "colour": colour, "x": rounded(x), "y": rounded(y, 4)}
            rows.append({**row, "labelY": label_y, "text": f"the busiest {share(x)} have {share(y)}"})
    tenths = [row for row in rows if round(100 * row["x"]) % 10 == 0]
    cells: list[list[object]] = [[row["model"], share(row["x"]), share(row["y"])] for row in tenths]
    description = "Share of the interactions that the busiest items and users have"
    chart = Chart("card_popularity", rows, {}, description)
    return chart.figure("card-popularity", ("Of", "Busiest", "Interactions"), cells, words=3)


def _times(times: Times, cuts: Sequence[Seconds]) -> dict[str, Any]:
    last = max(times.last, times.first + 1)
    dated = is_date(times.first) and is_date(times.last)

    def at(time: float) -> str | float:
        return datetime.fromtimestamp(time, UTC).isoformat() if dated else time

    edges = np.linspace(times.first, last, len(times.interactions) + 1).tolist()
    rows: list[dict[str, Any]] = [
        {
            "model": time_text(int(start)),
            "start": at(start),
            "end": at(end),
            "count": count,
            "text": count_text(count, "interaction"),
        }
        for start, end, count in zip(edges, edges[1:], times.interactions, strict=False)
    ]
    cells: list[list[object]] = [[row["model"], row["count"]] for row in rows]
    rows += [{"model": "cut", "cut": at(cut), "text": "the truth begins"} for cut in cuts]
    name = ("card_times" if dated else "card_order") + ("_cut" if cuts else "")
    title = "time; line: where the truth begins" if cuts else "time"
    chart = Chart(name, rows, {"title": title}, "Interactions over time; lines: where the truth begins")
    return chart.figure("card-times", ("From", "Interactions"), cells, words=1)


def _ratings(ratings: Sequence[Rating]) -> dict[str, Any]:
    rows = [
        {
            "model": rating_text(rating),
            "count": rating.interactions,
            "text": count_text(rating.interactions, "interaction"),
        }
        for rating in ratings
    ]
    cells = [[row["model"], row["count"]] for row in rows]
    chart = Chart("card_ratings", rows, {}, "Interactions by rating")
    return chart.figure("card-ratings", ("Rating", "Interactions"), cells, words=1)


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


def cuts_of(split: SplitCard) -> Sequence[Seconds]:
    """Return the first time of the test data of each fold whose train data is all older."""
    return [
        fold.test_first
        for fold in split.folds
        if fold.test_first is not None and fold.train_last is not None and fold.train_last <= fold.test_first
    ]
