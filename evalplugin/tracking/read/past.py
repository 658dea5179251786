"""Past bake-offs, read from the runs of an experiment: their results, and their data cards with what changed since."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, get_args

from evalplugin.base.errors import DataError, TrackingError
from evalplugin.comparison.gate import GateOutcome
from evalplugin.comparison.trends import PastBakeoff, PastModel, Value
from evalplugin.data.card import DataCard
from evalplugin.data.drift import DescribedData, Drift, drift_between
from evalplugin.execution.results import DataSplit
from evalplugin.tracking.connection import FAIL_FAST, connect, existing_store, store_exists, tracking_call
from evalplugin.tracking.location import resolve_uri
from evalplugin.tracking.names import metric_name
from evalplugin.tracking.read.logged import LoggedRun
from evalplugin.tracking.read.runs import (
    DONE,
    PAGE_SIZE,
    experiments_called,
    in_config_order,
    run_pages,
    search_runs,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient

__all__ = [
    "CARD",
    "LAST",
    "drifts_since",
    "last_finished",
    "past_around",
    "past_of",
    "read_drifts",
    "read_past",
]

LAST = 30  # bake-offs that a trend shows by default
CARD = "data/card.json"  # of the summary run
_EARLIER = 10  # bake-offs in which a dataset is looked for
_NO_EARLIER = "no earlier bake-off of this experiment to compare the data with"
_MODELS = 4  # of a bake-off, where their number is not known: too large pages cost milliseconds a run
_ROLE = "tags.`evalplugin.role` = '{}'"
# Parameters that must be the same for the values of two bake-offs to be comparable.
_RULES = (
    "eval.n",
    "eval.candidates",
    "eval.ties",
    "eval.cold_users",
    "eval.threshold",
    "split.type",
    "split.folds",
)


def last_finished(uri: str, experiment: str, config: str) -> LoggedRun | None:
    """Return the summary run of the last finished bake-off of a config; None: there is none, or a step of it failed.

    A model that failed, or a winner that could not be registered, is to be tried again.

    Args:
        uri: The tracking store, absolute.
        experiment: Its name.
        config: The hash of the config among the bake-off's inputs.

    Raises:
        TrackingError: The store cannot be reached.
    """
    client = connect(uri)
    with tracking_call(uri, "look for the last bake-off", settings=FAIL_FAST):
        home = client.get_experiment_by_name(experiment)
        if home is None:
            return None
        query = f"attributes.status = 'FINISHED' and tags.`evalplugin.inputs` LIKE '%{config}%'"
        found = search_runs(client, [home.experiment_id], f"{_ROLE.format('summary')} and {query}", limit=1)
    if not found or found[0].run.data.metrics.get("models_failed", 0.0) > 0 or _is_unregistered(found[0]):
        return None
    return found[0]


def read_past(tracking_uri: str | None = None, *, experiment: str, last: int = LAST) -> list[PastBakeoff]:
    """Return the latest bake-offs of an experiment, the oldest first; no artifact is read.

    Args:
        tracking_uri: The store; None: MLFLOW_TRACKING_URI, or else ``sqlite:///mlflow.db``.
        experiment: Its name.
        last: How many bake-offs at most.

    Raises:
        DataError: There is no such experiment, or no bake-off in it.
        TrackingError: The store cannot be reached.
    """
    with existing_store(tracking_uri, "read the bake-offs") as client:
        (home,) = experiments_called(client, experiment)
        found = past_of(client, home, last)
    if not found:
        make = "make one: python -m evalplugin run CONFIG"
        raise DataError(f"the experiment {experiment!r} of {client.tracking_uri} has no bake-offs; {make}")
    return found


def past_of(
    client: MlflowClient, experiment_id: str, last: int = LAST, *, models_each: int = _MODELS
) -> list[PastBakeoff]:
    """Return the latest bake-offs of an experiment whose models' runs have ended, the oldest first.

    What is read depends on ``last``, not on how many there are. ``models_each``: about how many runs of models each
    has, which are requested in one page.
    """
    models = _models(client, experiment_id, last, models_each)
    summaries = _summaries(client, experiment_id, models) if models else {}
    found = [_bakeoff(name, runs, summaries.get(name)) for name, runs in models.items()]
    return sorted(found, key=lambda bakeoff: (bakeoff.at, bakeoff.id))


def past_around(run_ids: Sequence[str], tracking_uri: str | None = None) -> list[PastBakeoff]:
    """Return the latest bake-offs of the experiment that runs are in; none where they are in several.

    Raises:
        TrackingError: The store cannot be reached.
    """
    with existing_store(tracking_uri, "read the bake-offs before") as client:
        experiments = {client.get_run(run_id).info.experiment_id for run_id in run_ids}
        return past_of(client, experiments.pop()) if len(experiments) == 1 else []


def _models(client: MlflowClient, experiment: str, last: int, models_each: int) -> dict[str, list[LoggedRun]]:
    """Return the runs of models that have ended, by bake-off, each in config order; those of the latest bake-offs."""
    found: dict[str, list[LoggedRun]] = {}
    size = min(last * models_each + 1, PAGE_SIZE)  # with the first run of the bake-off before
    for page in run_pages(client, [experiment], _ROLE.format("model"), size):
        for run in page:
            if run.status in DONE:
                found.setdefault(run.bakeoff, []).append(run)
        if len(found) > last:  # the runs of the last bake-off may go on over the next page
            break
    return {name: in_config_order(runs) for name, runs in list(found.items())[:last]}


def _summaries(
    client: MlflowClient, experiment: str, bakeoffs: Mapping[str, Sequence[LoggedRun]]
) -> dict[str, LoggedRun]:
    """Return the summary runs of bake-offs, as far as they have one: the one that runs now has none yet."""
    found: dict[str, LoggedRun] = {}
    oldest = min(run.started for runs in bakeoffs.values() for run in runs)
    for page in run_pages(client, [experiment], _ROLE.format("summary"), min(len(bakeoffs), PAGE_SIZE)):
        for run in page:
            if run.bakeoff in bakeoffs:
                found.setdefault(run.bakeoff, run)
        # The summary of a bake-off begins after its models.
        if len(found) == len(bakeoffs) or (page and page[-1].started < oldest):
            break
    return found


def _bakeoff(name: str, runs: Sequence[LoggedRun], summary: LoggedRun | None) -> PastBakeoff:
    decision: dict[str, str | None] = {}
    damaged = [sentence for run in runs if (sentence := run.damage)]
    if summary is not None:
        decision = {key: summary.tag(key) or None for key in ("outcome", "champion", "promoted")}
        if (outcome := decision["outcome"]) is not None and outcome not in get_args(GateOutcome):
            damaged.append(
                f"{summary} has the tag evalplugin.outcome = {outcome!r}, which no gate has decided"
            )
            decision = {}
    sound = [run for run in runs if not run.damage]
    names = [] if summary is None else [summary.tag("decided_dataset"), summary.tag("decided_split")]
    return PastBakeoff(
        id=name,
        at=min(run.started for run in runs),
        primary=(sound[0].param("eval.primary") or "") if sound else "",
        baseline=sound[0].param("eval.baseline") if sound else None,
        models=tuple(map(_model, sound)),
        outcome=decision.get("outcome"),
        champion=decision.get("champion"),
        promoted=decision.get("promoted"),
        unregistered=summary is not None and _is_unregistered(summary),
        decided=DataSplit(*names) if names and all(names) else None,
        damaged=tuple(damaged),
    )


def _is_unregistered(summary: LoggedRun) -> bool:
    return summary.tag("registered").startswith("failed")


def _model(run: LoggedRun) -> PastModel:
    params = run.run.data.params
    # With another type or other parameters it is another model of the same name.
    recipe = sorted(key for key in params if key.startswith("model.") and key != "model.name")
    return PastModel(
        model=run.model,
        dataset=run.tag("dataset"),
        split=run.tag("split"),
        run_id=run.id,
        values={} if run.status == "FAILED" else _values(run),
        definitions=run.mapping("definitions"),
        settings=json.dumps({key: params.get(key) for key in (*_RULES, *recipe)}),
        data=run.digests.get("evaluation", ""),
    )


def _values(run: LoggedRun) -> dict[str, Value]:
    logged = run.run.data.metrics
    users = logged.get("users", 0.0) + logged.get("users_undefined", 0.0)
    found = {}
    for name in run.metrics:
        try:
            key = metric_name(name)
        except TrackingError:
            continue  # it was never logged under a name of its own
        if key in logged:
            found[name] = Value(
                mean=logged[key],
                low=logged.get(f"ci/{key}.low", math.nan),
                high=logged.get(f"ci/{key}.high", math.nan),
                std=logged.get(f"dist/{key}.std", math.nan),
                users=_count(users - logged.get(f"undefined/{key}", 0.0)),
            )
    return found


def _count(users: float) -> int:
    return int(users) if math.isfinite(users) else 0


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
        for run in search_runs(client, [experiment_id], _ROLE.format("summary"), limit=_EARLIER)
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
    except (TrackingError, KeyError, TypeError, AttributeError):  # damaged, or of another version
        return None
