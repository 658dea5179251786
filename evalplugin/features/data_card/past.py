"""Data cards of earlier bake-offs, and what has changed in the datasets since."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evalplugin.base.errors import TrackingError
from evalplugin.features.data_card.card import DataCard
from evalplugin.features.data_card.drift import DescribedData, Drift, drift_between
from evalplugin.tracking.connection import FAIL_FAST, existing_store, store_exists
from evalplugin.tracking.location import resolve_uri
from evalplugin.tracking.read.logged import LoggedRun
from evalplugin.tracking.read.runs import DONE, SUMMARY_RUNS, search_runs

if TYPE_CHECKING:
    from mlflow import MlflowClient

CARD = "data/card.json"  # of the summary run
_EARLIER = 10  # bake-offs in which a dataset is looked for
_NO_EARLIER = "no earlier bake-off of this experiment to compare the data with"


def drifts_since(
    client: MlflowClient, experiment_id: str, cards: Sequence[DataCard], *, bakeoff: str = ""
) -> dict[str, Drift | str]:
    """Return how each dataset differs from the latest bake-off with a dataset of its name, or why that is not known.

    Args:
        client: Of the store.
        experiment_id: Where to look.
        cards: Of the datasets now.
        bakeoff: The id of the bake-off that is not an earlier one.
    """
    runs = [
        run
        for run in search_runs(client, [experiment_id], SUMMARY_RUNS, limit=_EARLIER)
        if run.bakeoff != bakeoff and run.status in DONE
    ]
    found: dict[str, Drift | str] = {}
    without = ""
    for run in runs:
        if len(found) == len(cards):
            break
        earlier = _cards(run)
        if earlier is None:
            without = without or run.bakeoff
            continue
        for card in cards:
            if card.name in earlier and card.name not in found:
                at = run.started.isoformat(timespec="seconds")
                found[card.name] = drift_between(earlier[card.name], card, bakeoff=run.bakeoff, at=at)
    if without:
        reason = f"the bake-off {without} has no data card: nothing to compare the data with"
    else:
        reason = "no earlier bake-off of this experiment has a dataset of this name" if runs else _NO_EARLIER
    return {card.name: found.get(card.name, reason) for card in cards}


def read_drifts(
    tracking_uri: str | None, experiment: str, cards: Sequence[DataCard]
) -> dict[str, Drift | str]:
    """Return the same for an experiment by its name; a store that cannot be reached is a reason too.

    ``tracking_uri``: the store; None: MLFLOW_TRACKING_URI, or else ``sqlite:///mlflow.db``.
    """
    uri = resolve_uri(tracking_uri)
    try:
        if not store_exists(uri):
            return {card.name: _NO_EARLIER for card in cards}
        with existing_store(uri, "read the data cards", settings=FAIL_FAST) as client:
            home = client.get_experiment_by_name(experiment)
            if home is None:
                return {card.name: _NO_EARLIER for card in cards}
            return drifts_since(client, home.experiment_id, cards)
    except TrackingError as error:
        return {card.name: f"the data is not compared with an earlier bake-off: {error}" for card in cards}


def _cards(run: LoggedRun) -> dict[str, DataCard] | None:
    """Return the cards of a bake-off by dataset; None where it has none that can be read."""
    try:
        values = run.json_file(CARD)
        return None if values is None else DescribedData.cards_from(values)
    except (TrackingError, KeyError, TypeError, ValueError):  # damaged, or of another version
        return None
