"""Datasets described: cards, drift and findings of a config's data; nothing is fitted and nothing is logged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from evalplugin.execution.results import Finding
from evalplugin.execution.runner import PreparedData
from evalplugin.features.data_card.card import DataCard, card_of, split_card
from evalplugin.features.data_card.drift import DescribedData
from evalplugin.features.data_card.past import read_drifts
from evalplugin.features.data_card.report import card_picture
from evalplugin.files.outputs import open_output
from evalplugin.workspace import Workspace


@dataclass(frozen=True)
class DataReport:
    """The data of a config: cards, drift, and what the checks find in it."""

    config: str  # the file
    data: DescribedData
    findings: tuple[Finding, ...]

    def as_mapping(self) -> dict[str, Any]:
        """Return everything as plain JSON values: ``config``, ``datasets`` and ``checks``."""
        return {
            "config": self.config,
            **self.data.as_mapping(),
            "checks": [asdict(finding) for finding in self.findings],
        }


def describe_data(workspace: Workspace) -> DataReport:
    """Return the cards of a config's datasets, how they differ from the previous bake-off, and findings.

    Raises:
        DataError: Data that is missing or breaks a rule, or a filter that leaves nothing.
    """
    from evalplugin.features.checks.feature import data_findings

    observer = workspace.observer
    prepared = workspace.prepare(cached=False)
    with observer.progress("count"):
        cards = cards_of(prepared)
    with observer.progress("look for the previous bake-off"):
        drifts = read_drifts(workspace.uri, workspace.experiment, cards)
    with observer.progress("check the data"):
        findings = tuple(data_findings(workspace.config, prepared))
    return DataReport(workspace.config.name, DescribedData(cards, drifts), findings)


def cards_of(prepared: Sequence[PreparedData]) -> tuple[DataCard, ...]:
    """Return a card for each dataset, with all its splits, in config order."""
    cards = []
    for name, group in groupby(prepared, key=lambda data: data.info.dataset):
        parts = list(group)
        splits = [split_card(data.info.split, data.info.split_type, data.folds) for data in parts]
        cards.append(card_of(name, parts[0].info.type, parts[0].info.full, splits))
    return tuple(cards)


def write_pictures(cards: Sequence[DataCard], folder: str | Path) -> list[str]:
    """Write a picture of each dataset into a folder, which is made; return the files, in the order of the cards.

    Raises:
        OSError: The folder or a file cannot be written.
        DataError: The folder is a URI, and its store refuses or cannot be reached.
    """
    if isinstance(folder, Path):
        folder.mkdir(parents=True, exist_ok=True)
    written = []
    for number, card in enumerate(cards, start=1):
        name = "data_card.png" if len(cards) == 1 else f"data_card_{number}.png"
        file = f"{str(folder).rstrip('/')}/{name}"
        with open_output(file) as out:
            out.write(card_picture(card))
        written.append(file)
    return written
