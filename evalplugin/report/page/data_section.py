"""The page's section on the data: its card, and what has changed since an earlier bake-off."""

from __future__ import annotations

from typing import Any

from evalplugin.base.numbers import number, rounded
from evalplugin.data.card import Inequality, Rating, SplitCard, Times
from evalplugin.data.drift import DescribedData
from evalplugin.data.times import is_date
from evalplugin.report.data_card import (
    SPLIT_HEADS,
    card_facts,
    card_title,
    cuts_of,
    drift_sentence,
    split_rows,
)

__all__ = ["data_section"]


def data_section(
    described: DescribedData | None, dataset: str, split: str
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return the text and the charts of the section for a dataset under a split; None where there is no card.

    Keys of the charts: ``items`` and ``users``, each with ``gini`` and ``curve``; ``times``: ``first``, ``last``,
    ``counts`` of equal periods, ``cuts``, and ``isDate``; ``ratings``: names with counts. ``times`` and ``ratings`` are
    None where the data has none.
    """
    cards = [] if described is None else [card for card in described.cards if card.name == dataset]
    if described is None or not cards:
        return None, None
    (card,) = cards
    drift = described.drifts.get(dataset)
    text = {
        "title": card_title(card),
        "drift": "" if drift is None else drift_sentence(drift),
        "facts": card_facts(card),
        "heads": SPLIT_HEADS,
        "rows": [row for row in split_rows(card) if row[0] == split] or split_rows(card),
    }
    cut = [one for one in card.splits if one.name == split]
    return text, {
        "items": _curve(card.by_item),
        "users": _curve(card.by_user),
        "times": None if card.times is None else _times(card.times, cut),
        "ratings": None if card.ratings is None else [_rating(one) for one in card.ratings],
    }


def _curve(part: Inequality) -> dict[str, Any]:
    return {"gini": number(part.gini, 2), "curve": [rounded(share, 4) for share in part.curve]}


def _times(times: Times, splits: list[SplitCard]) -> dict[str, Any]:
    cuts = [cut for split in splits for cut in cuts_of(split)]
    return {
        "first": times.first,
        "last": max(times.last, times.first + 1),
        "counts": list(times.interactions),
        "cuts": cuts,
        "isDate": is_date(times.first) and is_date(times.last),
    }


def _rating(one: Rating) -> list[str | int]:
    return [f"{one.low:g}" if one.low == one.high else f"{one.low:g} to {one.high:g}", one.interactions]
