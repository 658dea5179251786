"""The section of the page on a dataset: its card as text and charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evalplugin.base.numbers import number, rounded
from evalplugin.comparison.comparison import Comparison
from evalplugin.data.times import is_date
from evalplugin.features.data_card.card import Inequality, SplitCard, Times
from evalplugin.features.data_card.drift import DescribedData
from evalplugin.features.data_card.report import (
    SPLIT_HEADS,
    card_facts,
    card_title,
    cuts_of,
    drift_sentence,
    rating_text,
    split_rows,
)


def card_tab(
    described: DescribedData, comparison: Comparison, models: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the text and the charts of the section for the dataset of a comparison; empty where it has no card.

    Keys of the charts: ``items`` and ``users``, each with ``gini`` and ``curve``; ``times``: ``first``, ``last``,
    ``counts`` of equal periods, ``cuts``, and ``isDate``; ``ratings``: names with counts. ``times`` and ``ratings`` are
    None where the data has none.
    """
    dataset, split = comparison.contest.dataset, comparison.contest.split
    card = next((card for card in described.cards if card.name == dataset), None)
    if card is None:
        return {}
    drift = described.drifts.get(dataset)
    text = {
        "title": card_title(card),
        "drift": "" if drift is None else drift_sentence(drift),
        "facts": card_facts(card),
        "heads": SPLIT_HEADS,
        "rows": [row for row in split_rows(card) if row[0] == split] or split_rows(card),
    }
    splits = [own for own in card.splits if own.name == split]
    ratings = card.ratings
    charts = {
        "items": _inequality(card.by_item),
        "users": _inequality(card.by_user),
        "times": None if card.times is None else _times(card.times, splits),
        "ratings": None if ratings is None else [[rating_text(one), one.interactions] for one in ratings],
    }
    return {"card": text, "data": {"card": charts}}


def _inequality(part: Inequality) -> dict[str, Any]:
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
