"""Data cards in a bake-off: sizes of each dataset, and how they differ from those of the bake-off before."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from evalplugin.comparison.comparison import Comparison
from evalplugin.features.base import Feature, Results, Running
from evalplugin.features.data_card.command import cards_of
from evalplugin.features.data_card.drift import DescribedData, Drift
from evalplugin.features.data_card.page import card_tab
from evalplugin.features.data_card.past import CARD, drifts_since
from evalplugin.features.data_card.report import card_markdown, drift_sentence
from evalplugin.report.sections import Section
from evalplugin.tracking.connection import tracking_call
from evalplugin.tracking.write.items import Artifact, Item


class DataCardsFeature(Feature):
    """Describes the datasets, and reports their drift."""

    def after(self, running: Running, results: Results) -> Results:
        """Add the cards, and how each dataset differs from that of an earlier bake-off."""
        observer, tracker = running.workspace.observer, running.tracker
        with observer.progress("describe the data"):
            cards = cards_of(running.prepared)
            with tracking_call(tracker.uri, "read the data cards before"):
                drifts = drifts_since(
                    tracker.client, tracker.experiment_id, cards, bakeoff=running.bakeoff.id
                )
        for name, drift in drifts.items():
            if isinstance(drift, Drift):
                observer.report(f"{name}: {drift_sentence(drift)}")
        return results.having(data=DescribedData(cards, drifts))

    def items(self, results: Results) -> Iterator[Item]:
        """Yield the cards for people and for programs."""
        if (data := results.values.get("data")) is not None:
            lines = ["# Data", ""]
            for card in data.cards:
                lines += card_markdown(card, data.drifts.get(card.name))
            yield Artifact("data_card.md", "\n".join(lines))
            yield Artifact(CARD, json.dumps(data.as_mapping(), ensure_ascii=False, allow_nan=False))

    def sections(self, comparisons: Sequence[Comparison], values: Mapping[str, Any]) -> Iterator[Section]:
        """Yield the cards for the page."""
        if (data := values.get("data")) is not None:
            yield Section(tab=partial(card_tab, data))
