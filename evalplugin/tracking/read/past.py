"""Bake-offs of the past, read from the runs of an experiment."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from evalplugin.base.errors import DataError, TrackingError
from evalplugin.base.secrets import redact
from evalplugin.comparison.trends import PastBakeoff, PastModel, Value
from evalplugin.tracking.connection import BRIEFLY, connect, connect_to_existing, talking
from evalplugin.tracking.location import resolve_uri
from evalplugin.tracking.names import metric_name
from evalplugin.tracking.read.runs import experiments_called, in_config_order

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

__all__ = ["LAST", "Finished", "last_finished", "past_around", "past_of", "read_past"]

LAST = 30  # bake-offs that a trend shows, if nothing else is asked for
_PAGE = 500  # runs that are asked for at a time
_ENDED = ("FINISHED", "FAILED")
# Tags of the summary run where there was a gate.
_DECIDED = ("outcome", "champion", "promoted", "decided_dataset", "decided_split")
# A comma inside of parentheses is part of a metric's name.
_BETWEEN_METRICS = re.compile(r", (?![^()]*\))")
# What must be the same for the values of two bake-offs to be comparable, beside the definition of the metric.
_ASKED = ("eval.n", "eval.candidates", "eval.threshold", "split.type", "split.folds")


@dataclass(frozen=True)
class Finished:
    """A bake-off that was finished, and what went into it."""

    id: str
    at: datetime  # when it was finished, in UTC
    inputs: Mapping[str, str]  # hashes of config, data and code
    outcome: str | None  # what its gate decided


def last_finished(uri: str, experiment: str, config: str) -> Finished | None:
    """Return the last finished bake-off of a config; None: there is none, or something failed in it.

    A model that failed, or a winner that could not be registered, is to be tried again.

    ``uri`` is absolute, ``config`` the hash that ``bakeoff.unchanged.inputs_of`` gives it.

    Raises:
        TrackingError: The store cannot be reached.
    """
    client = connect(uri)
    with talking(uri, "look for the last bake-off", waiting=BRIEFLY):
        home = client.get_experiment_by_name(experiment)
        if home is None:
            return None
        query = f"attributes.status = 'FINISHED' and tags.`evalplugin.inputs` LIKE '%{config}%'"
        runs = _search(client, home.experiment_id, "summary", 1, query=query)[0]
    if not runs or runs[0].data.metrics.get("models_failed", 0.0) > 0 or _is_unregistered(runs[0]):
        return None
    (run,) = runs
    return Finished(
        id=_tag(run, "bakeoff"),
        at=datetime.fromtimestamp((run.info.end_time or run.info.start_time) / 1000, UTC),
        inputs=_mapping(_tag(run, "inputs")),
        outcome=_tag(run, "outcome") or None,
    )


def read_past(tracking_uri: str | None = None, *, experiment: str, last: int = LAST) -> list[PastBakeoff]:
    """Return the latest bake-offs of an experiment, the oldest first; only what stands in the runs themselves is read.

    Args:
        tracking_uri: The store; None: MLFLOW_TRACKING_URI, or else ``sqlite:///mlflow.db``.
        experiment: Its name.
        last: How many bake-offs at most.

    Raises:
        DataError: There is no such experiment, or no bake-off in it.
        TrackingError: The store cannot be reached.
    """
    uri = resolve_uri(tracking_uri)
    client = connect_to_existing(uri)
    with talking(uri, "read the bake-offs"):
        (home,) = experiments_called(client, redact(uri), experiment)
        found = past_of(client, home, last)
    if not found:
        make = "make one: python -m evalplugin run CONFIG"
        raise DataError(f"the experiment {experiment!r} of {redact(uri)} has no bake-offs; {make}")
    return found


def past_of(client: MlflowClient, experiment_id: str, last: int = LAST) -> list[PastBakeoff]:
    """Return the latest bake-offs of an experiment whose models' runs have ended, the oldest first."""
    models = _models(client, experiment_id, last)
    summaries = _summaries(client, experiment_id, models)
    found = [_bakeoff(name, runs, summaries.get(name)) for name, runs in models.items()]
    return sorted(found, key=lambda bakeoff: (bakeoff.at, bakeoff.id))


def past_around(run_ids: Sequence[str], tracking_uri: str | None = None) -> list[PastBakeoff]:
    """Return the latest bake-offs of the experiment that runs stand in; none where they stand in several.

    Raises:
        TrackingError: The store cannot be reached.
    """
    uri = resolve_uri(tracking_uri)
    client = connect_to_existing(uri)
    with talking(uri, "read the bake-offs before"):
        homes = {client.get_run(run_id).info.experiment_id for run_id in run_ids}
        return past_of(client, homes.pop()) if len(homes) == 1 else []


def _models(client: MlflowClient, home: str, last: int) -> dict[str, list[Run]]:
    """Return the runs of models that have ended, by bake-off, each in config order; those of the latest bake-offs."""
    found: dict[str, list[Run]] = {}
    token = None
    while True:
        runs, token = _search(client, home, "model", _PAGE, token)
        for run in runs:
            if run.info.status in _ENDED:
                found.setdefault(_tag(run, "bakeoff"), []).append(run)
        # The last one seen may go on over the next page.
        if not token or len(found) > last:
            break
    return {name: in_config_order(runs) for name, runs in list(found.items())[:last]}


def _summaries(client: MlflowClient, home: str, bakeoffs: Collection[str]) -> dict[str, Run]:
    """Return the summary runs of bake-offs, as far as they have one."""
    found: dict[str, Run] = {}
    token = None
    while len(found) < len(bakeoffs):
        runs, token = _search(client, home, "summary", _PAGE, token)
        for run in runs:
            if (name := _tag(run, "bakeoff")) in bakeoffs:
                found.setdefault(name, run)
        if not token:
            break
    return found


def _search(
    client: MlflowClient, home: str, role: str, most: int, token: str | None = None, query: str = ""
) -> tuple[list[Run], str | None]:
    page = client.search_runs(
        [home],
        f"tags.`evalplugin.role` = '{role}'" + (f" and {query}" if query else ""),
        max_results=most,
        order_by=["attributes.start_time DESC"],
        page_token=token,
    )
    return list(page), page.token


def _bakeoff(name: str, runs: list[Run], summary: Run | None) -> PastBakeoff:
    first = runs[0]
    return PastBakeoff(
        id=name,
        at=datetime.fromtimestamp(min(run.info.start_time for run in runs) / 1000, UTC),
        primary=str(first.data.params.get("eval.primary", "")),
        baseline=_set(first.data.params.get("eval.baseline")),
        models=tuple(map(_model, runs)),
        **({} if summary is None else _decision(summary)),
    )


def _decision(summary: Run) -> dict[str, Any]:
    outcome, champion, promoted, dataset, split = (_tag(summary, key) or None for key in _DECIDED)
    decided = None if dataset is None or split is None else (dataset, split)
    return {
        "outcome": outcome,
        "champion": champion,
        "promoted": promoted,
        "decided": decided,
        "unregistered": _is_unregistered(summary),
    }


def _is_unregistered(summary: Run) -> bool:
    return _tag(summary, "registered").startswith("failed")


def _model(run: Run) -> PastModel:
    params = run.data.params
    names = _BETWEEN_METRICS.split(params.get("eval.metrics", ""))
    digests = {
        tag.value: given.dataset.digest
        for given in (run.inputs.dataset_inputs if run.inputs else ())
        for tag in given.tags
        if tag.key == "mlflow.data.context"
    }
    return PastModel(
        model=_tag(run, "model"),
        dataset=_tag(run, "dataset"),
        split=_tag(run, "split"),
        run_id=run.info.run_id,
        values={} if run.info.status == "FAILED" else _values(run.data.metrics, names),
        definitions=_mapping(_tag(run, "definitions")),
        asked=json.dumps({key: params.get(key) for key in (*_ASKED, *_recipe(params))}),
        data=digests.get("evaluation", ""),
    )


def _recipe(params: Mapping[str, str]) -> list[str]:
    """Return the keys of a model's type and parameters: with others it is another model of the same name."""
    return sorted(key for key in params if key.startswith("model.") and key != "model.name")


def _values(logged: Mapping[str, float], names: list[str]) -> dict[str, Value]:
    everybody = logged.get("users", 0.0) + logged.get("users_undefined", 0.0)
    found = {}
    for name in names:
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
                users=int(everybody - logged.get(f"undefined/{key}", 0.0)),
            )
    return found


def _mapping(text: str) -> dict[str, str]:
    try:
        known = json.loads(text)
    except ValueError:  # not there, or too long for a tag
        return {}
    return {str(name): str(value) for name, value in known.items()}


def _set(text: str | None) -> str | None:
    return None if text in (None, "null") else text


def _tag(run: Run, key: str) -> str:
    return str(run.data.tags.get(f"evalplugin.{key}", ""))
