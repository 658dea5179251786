"""The command ``data``: a description of a config's datasets and splits."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalplugin.base.errors import EXIT_DONE
from evalplugin.cli import options
from evalplugin.cli.shared import echo_data, open_all, show_warning

if TYPE_CHECKING:
    from evalplugin.features.data_card.card import DescribedData


@options.command()
@options.configs
@options.set_value
@options.data_home
@options.shown("text", "json", help="json: one object for a config, a list for several.")
@options.debug
def data(configs: tuple[Path, ...], overrides: tuple[str, ...], shown: str, **where: Any) -> int:
    """Describe the data of configs: sizes, inequality, ratings, time, splits, and what checks find.

    The data is read, filtered and split; nothing is fitted and nothing is logged.
    """
    from evalplugin.cli import show
    from evalplugin.features.data_card.feature import describe_data

    workspaces = open_all(configs, overrides, show.observer(), **where)
    described = [describe_data(workspace) for workspace in workspaces]
    if shown == "json":
        values = [
            {
                "config": workspace.config.name,
                **data.as_mapping(),
                "checks": [asdict(finding) for finding in data.findings],
            }
            for workspace, data in zip(workspaces, described, strict=True)
        ]
        content = values[0] if len(values) == 1 else values
        echo_data(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False))
    else:
        for data in described:
            show_data(data)
    return EXIT_DONE


def show_data(data: DescribedData) -> None:
    """Print the cards of all datasets of a config; findings are warnings."""
    from evalplugin.cli.show.console import show_facts, show_table
    from evalplugin.features.data_card.report import card_facts, splits_table

    for card in data.cards:
        splits = splits_table(card)
        show_facts(splits.title, card_facts(card))
        show_table(splits._replace(title=""))
    for finding in data.findings:
        show_warning(finding.line)


COMMAND = data
