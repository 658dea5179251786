"""Data cards in a bake-off, on the page and in the command ``data``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from pydantic import TypeAdapter

from evalplugin.base.errors import TrackingError
from evalplugin.comparison.comparison import Comparison
from evalplugin.data import in_one_piece
from evalplugin.execution.runner import PreparedData
from evalplugin.features.base import Bakeoff, Feature
from evalplugin.features.data_card.card import (
    DataCard,
    DescribedData,
    card_of,
    split_card,
)
from evalplugin.features.data_card.report import (
    card_facts,
    card_figures,
    card_markdown,
    card_title,
    sizes_text,
    splits_table,
)
from evalplugin.report.sections import Section
from evalplugin.tracking import mlflow
from evalplugin.tracking.connection import tracking_call
from evalplugin.tracking.read.logged import LoggedRun
from evalplugin.tracking.read.runs import DONE, SUMMARY_RUNS, search_runs
from evalplugin.tracking.write.items import Artifact, Item
from evalplugin.workspace import Workspace

_CARDS = "data/card.json"  # of the summary run
_EARLIER = 10  # bake-offs that are asked for cards


class DataCardsFeature(Feature):
    """Describes the datasets, with their sizes in an earlier bake-off and now."""

    def after(self, bakeoff: Bakeoff) -> None:
        """Add the cards, and each dataset's sizes in an earlier bake-off and now."""
        observer, tracker = bakeoff.workspace.observer, bakeoff.tracker
        with observer.progress("describe the data"):
            cards = cards_of(bakeoff.prepared)
            with tracking_call(tracker.uri, "read earlier data cards"):
                sizes = sizes_since(tracker.client, tracker.experiment_id, cards, bakeoff=bakeoff.plan.id)
        for name, line in sizes.items():
            observer.report(f"{name}: {line}")
        bakeoff.found[DescribedData] = DescribedData(cards, sizes)

    def items(self, bakeoff: Bakeoff) -> Iterator[Item]:
        """Yield the cards for people and for programs."""
        if (data := bakeoff.found.get(DescribedData)) is not None:
            lines = ["# Data", ""]
            for card in data.cards:
                lines += card_markdown(card, data.sizes.get(card.name))
            yield Artifact("data_card.md", "\n".join(lines))
            yield Artifact(_CARDS, json.dumps(data.as_mapping(), ensure_ascii=False, allow_nan=False))

    def sections(self, bakeoff: Bakeoff, comparisons: Sequence[Comparison]) -> Iterator[Section]:
        """Yield the cards for the page."""
        if (data := bakeoff.found.get(DescribedData)) is not None:
            yield Section(tab=partial(card_tab, data))


def cards_of(prepared: Sequence[PreparedData]) -> tuple[DataCard, ...]:
    """Return a card for each dataset, with all its splits, in config order."""
    cards = []
    for name, group in groupby(prepared, key=lambda data: data.info.dataset):
        parts = list(group)
        splits = [split_card(data.info.split, data.info.split_type, data.folds) for data in parts]
        cards.append(card_of(name, parts[0].info.type, in_one_piece(parts[0].info.full), splits))
    return tuple(cards)


def sizes_since(
    client: mlflow.MlflowClient, experiment_id: str, cards: Sequence[DataCard], *, bakeoff: str
) -> dict[str, str]:
    """Return a line for each dataset whose sizes were others in the latest earlier bake-off with cards.

    Args:
        client: Of the store.
        experiment_id: Where to look.
        cards: Of the datasets now.
        bakeoff: The id of the bake-off that is not an earlier one.
    """
    for run in search_runs(client, [experiment_id], SUMMARY_RUNS, limit=_EARLIER):
        if run.bakeoff == bakeoff or run.status not in DONE:
            continue
        if earlier := _cards_of_run(run):
            when = f"in the bake-off {run.bakeoff} of {run.started.date()}"
            return {
                card.name: f"{sizes_text(earlier[card.name])} {when}; now {sizes_text(card)}"
                for card in cards
                if card.name in earlier and sizes_text(earlier[card.name]) != sizes_text(card)
            }
    return {}


def _cards_of_run(run: LoggedRun) -> dict[str, DataCard]:
    """Return the cards of a summary run by dataset; empty where it has none that can be read."""
    try:
        content = run.json_file(_CARDS)
        cards = [] if content is None else TypeAdapter(list[DataCard]).validate_python(content["datasets"])
    except (TrackingError, KeyError, TypeError, ValueError):  # damaged, or of another version
        return {}
    return {card.name: card for card in cards}


def card_tab(
    described: DescribedData, comparison: Comparison, models: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the text and the figures of the section for the dataset of a comparison; empty where it has no card."""
    dataset, split = comparison.contest.dataset, comparison.contest.split
    card = next((card for card in described.cards if card.name == dataset), None)
    if card is None:
        return {}
    text = {
        "title": card_title(card),
        "sizes": described.sizes.get(dataset),
        "facts": card_facts(card),
        "table": splits_table(card, split),
    }
    figures = card_figures(card, [own for own in card.splits if own.name == split])
    return {"card": text, "data": {"card": list(figures)}}


def describe_data(workspace: Workspace) -> DescribedData:
    """Return the cards of a config's datasets, and findings; no tracking store is opened.

    Raises:
        DataError: Data that is missing or breaks a rule, or a filter that leaves nothing.
    """
    # Inside, as a bake-off's cards need no checks: each feature can be taken away.
    from evalplugin.features.checks.feature import data_findings

    observer = workspace.observer
    prepared = workspace.prepare()
    with observer.progress("count"):
        cards = cards_of(prepared)
    with observer.progress("check the data"):
        findings = tuple(data_findings(workspace.config, prepared))
    return DescribedData(cards, findings=findings)


FEATURE = DataCardsFeature
