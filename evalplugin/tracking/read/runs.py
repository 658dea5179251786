"""Queries of runs, page by page, and their selection: by bake-off, by name, or each model's latest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, islice
from typing import Any

from evalplugin.base.errors import DataError, did_you_mean
from evalplugin.base.places import DataSplit
from evalplugin.base.secrets import redact
from evalplugin.tracking import mlflow
from evalplugin.tracking.connection import FAIL_FAST, attempt, existing_store, store_exists
from evalplugin.tracking.names import DATA_TAG
from evalplugin.tracking.read.logged import LoggedRun

_LATEST = "latest"  # in place of a bake-off's id: the one that was finished last
PAGE_SIZE = 1000
DONE = ("FINISHED", "FAILED")  # status of runs that have ended by themselves
MODEL_RUNS = "tags.`evalplugin.role` = 'model'"  # filters of MLflow
SUMMARY_RUNS = "tags.`evalplugin.role` = 'summary'"
_RUN_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class FoundRuns:
    """Runs of models, their common name, and notes on the selection."""

    runs: tuple[LoggedRun, ...]
    name: str
    notes: tuple[str, ...] = ()


def find_runs(
    client: mlflow.MlflowClient,
    *,
    runs: Sequence[str],
    bakeoff: str | None = None,
    experiment: str | None = None,
) -> FoundRuns:
    """Return the selected runs of a store.

    Args:
        client: Of the store.
        runs, bakeoff, experiment: As in ``read_contests``.

    Raises:
        DataError: Nothing is there by that name, or it is not a run with results of ours; two ways to choose at once.
    """
    if runs and bakeoff is not None:
        raise DataError(f"give runs or a bake-off, not both: {', '.join(runs)} and {bakeoff}")
    words = redact(client.tracking_uri) if experiment is None else f"the experiment {experiment!r}"
    scope = _Scope(client, experiments_called(client, experiment), words)
    if runs:
        return scope.named(runs)
    if experiment is not None and bakeoff is None:
        return scope.latest_of_each_model()
    return scope.bakeoff(bakeoff or _LATEST)


def experiments_called(client: mlflow.MlflowClient, name: str | None) -> dict[str, str]:
    """Return the names of experiments by id: the one that is named, or all that are not deleted.

    Raises:
        DataError: None has the name, or it is deleted.
    """
    if name is not None:
        experiment = client.get_experiment_by_name(name)
        if experiment is not None:
            experiment_id = str(experiment.experiment_id)
            if experiment.lifecycle_stage == "active":
                return {experiment_id: name}
            raise DataError(
                f"the experiment {name!r} of {redact(client.tracking_uri)} is deleted; mlflow experiments restore -x "
                f"{experiment_id} brings it back"
            )
    experiments = chain.from_iterable(pages(lambda token: client.search_experiments(page_token=token)))
    names = {str(e.experiment_id): str(e.name) for e in experiments}
    if name is not None:
        near = did_you_mean(name, list(names.values()), noun="there are")
        raise DataError(f"{client.tracking_uri} has no experiment {name!r}{near}")
    return names


def find_summary(client: mlflow.MlflowClient, bakeoff: str | None, experiment: str | None) -> LoggedRun:
    """Return the summary run of a bake-off: of the one with an id, or of the latest that was finished.

    Raises:
        DataError: There is none in the experiment, or in any if none is named.
    """
    words = redact(client.tracking_uri) if experiment is None else f"the experiment {experiment!r}"
    return _Scope(client, experiments_called(client, experiment), words).summary(bakeoff)


@dataclass(frozen=True)
class _Scope:
    """The experiments that are searched: one, or all that are not deleted."""

    client: mlflow.MlflowClient
    experiments: dict[str, str]  # id -> name
    words: str  # for messages

    def bakeoff(self, bakeoff: str) -> FoundRuns:
        """Return the runs of a bake-off's models, in config order."""
        notes = []
        if bakeoff == _LATEST:
            latest = self.summary(None)
            bakeoff, name = latest.bakeoff, self.experiments[latest.experiment_id]
            where = "" if len(self.experiments) == 1 else f" (experiment {name!r})"
            notes.append(f"the latest bake-off of {self.words}: {bakeoff}{where}; --bakeoff ID takes another")
        runs = [] if "'" in bakeoff else self._search(models_filter(bakeoff))
        if not runs:
            raise self._unknown(bakeoff)
        done, undone = _done(runs)
        return FoundRuns(tuple(in_config_order(done)), bakeoff, (*notes, *undone))

    def summary(self, bakeoff: str | None) -> LoggedRun:
        """Return the summary run of a bake-off, or the latest finished one."""
        if bakeoff is None:
            runs = self._search(f"{SUMMARY_RUNS} and attributes.status = 'FINISHED'", 1)
            if not runs:
                raise DataError(
                    f"{self.words} has no finished bake-off; name runs or an experiment, or make one: "
                    f"python -m evalplugin run CONFIG"
                )
            return runs[0]
        runs = [] if "'" in bakeoff else self._search(summary_filter(bakeoff), 1)
        if not runs:
            raise self._unknown(bakeoff)
        return runs[0]

    def _unknown(self, bakeoff: str) -> DataError:
        known = list(dict.fromkeys(run.bakeoff for run in self._search(MODEL_RUNS, PAGE_SIZE)))
        near = did_you_mean(bakeoff, known[:10], noun="latest")
        return DataError(f"{self.words} has no bake-off {bakeoff!r}{near}")

    def named(self, names: Sequence[str]) -> FoundRuns:
        """Return runs by id, or the latest of each name: a run's name, or a model's."""
        named: dict[str, LoggedRun] = {}
        notes = []
        everywhere = replace(self, experiments=experiments_called(self.client, None))
        for name in names:
            if _RUN_ID.fullmatch(name):
                runs = [self._by_id(name)]
            # Lists that were scored are mostly in another experiment than the models.
            elif self._any_called(name) or not everywhere._any_called(name):
                runs = self._by_name(name)
            else:
                runs = everywhere._by_name(name)
                home = everywhere.experiments[runs[0].experiment_id]
                notes.append(f"{name} is not in {self.words}: it is taken from the experiment {home!r}")
            named.update({run.id: run for run in runs})
        experiments = dict.fromkeys(run.experiment_id for run in named.values())
        bakeoffs = dict.fromkeys(run.bakeoff for run in named.values())
        common = bakeoffs if len(bakeoffs) == 1 else [everywhere.experiments.get(e, e) for e in experiments]
        return FoundRuns(tuple(named.values()), ", ".join(common), tuple(notes))

    def latest_of_each_model(self) -> FoundRuns:
        """Return each model's latest run, for each dataset and split, the earliest first."""
        runs = self._search(MODEL_RUNS, PAGE_SIZE)
        if not runs:
            raise DataError(
                f"{self.words} has no runs of evalplugin's models; make some: python -m evalplugin run"
            )
        notes = []
        if len(runs) == PAGE_SIZE:
            notes.append(f"only the latest {PAGE_SIZE:,} runs of {self.words} were looked at")
        done, undone = _done(runs)
        latest: dict[tuple[str, ...], LoggedRun] = {}
        for run in done:
            latest.setdefault((*run.data_split, run.model), run)
        selected = tuple(in_config_order(latest.values()))
        return FoundRuns(selected, ", ".join(self.experiments.values()), (*notes, *undone))

    def _by_id(self, run_id: str) -> LoggedRun:
        existing = attempt("RESOURCE_DOES_NOT_EXIST", self.client.get_run, run_id)
        if existing is None:
            raise DataError(f"no run has the id {run_id}")
        run = LoggedRun(self.client, existing)
        role = run.tag("role")
        if role == "summary":
            raise DataError(
                f"run {run_id} is the summary of a bake-off: compare its models with --bakeoff {run.bakeoff}"
            )
        if role != "model":
            raise DataError(
                f"run {run_id} ({run.name}) is not a run of evalplugin: it has no scores of users"
            )
        if run.status not in DONE:
            raise DataError(f"run {run_id} ({run.name}) is {run.status}: it has no results")
        return run

    def _by_name(self, name: str) -> list[LoggedRun]:
        done, undone = _done(self._any_called(name))
        if not done:
            if undone:
                raise DataError(f"{self.words} has no run with results called {name!r}; {undone[0]}")
            known = dict.fromkeys(run.name for run in _done(self._search(MODEL_RUNS, PAGE_SIZE))[0])
            near = did_you_mean(name, list(known), noun="there are")
            raise DataError(f"{self.words} has no run with results called {name!r}{near}")
        runs = sorted(done, key=lambda run: run.started, reverse=True)
        experiments = dict.fromkeys(self.experiments[run.experiment_id] for run in runs)
        if len(experiments) > 1:
            raise DataError(
                f"{name!r} is a run of several experiments: choose one with --experiment: {', '.join(experiments)}"
            )
        latest: dict[DataSplit, LoggedRun] = {}
        for run in runs:
            latest.setdefault(run.data_split, run)
        return list(latest.values())

    def _any_called(self, name: str) -> list[LoggedRun]:
        """Return the latest runs of models whose own name or model's name is this."""
        called: dict[str, LoggedRun] = {}
        # With several datasets or splits, the name of a run is more than its model's.
        for key in ("attributes.run_name", "tags.`evalplugin.model`"):
            called.update({run.id: run for run in self._called(key, name)})
        return list(called.values())

    def _called(self, key: str, name: str) -> list[LoggedRun]:
        """Return the latest runs of models whose attribute or tag ``key`` is ``name``."""
        alike = self._search(f"{MODEL_RUNS} and {key} {_alike(name)}", PAGE_SIZE)
        return [run for run in alike if name in (run.name, run.model)]

    def _search(self, query: str, limit: int | None = None) -> list[LoggedRun]:
        return search_runs(self.client, list(self.experiments), query, limit)


def summary_filter(bakeoff: str) -> str:
    """Return MLflow's filter for the summary run of a bake-off."""
    return f"tags.`evalplugin.bakeoff` = '{bakeoff}' and {SUMMARY_RUNS}"


def models_filter(bakeoff: str, place: DataSplit | None = None) -> str:
    """Return MLflow's filter for the runs of a bake-off's models, on one dataset and split if one is given."""
    query = f"tags.`evalplugin.bakeoff` = '{bakeoff}' and {MODEL_RUNS}"
    for key, name in ({} if place is None else place._asdict()).items():
        if name:
            query += f" and tags.`evalplugin.{key}` {_alike(name)}"
    return query


def _alike(name: str) -> str:
    like = name.replace("'", "_")  # MLflow's filters cannot escape a quote: "_" stands for any character
    return f"LIKE '{like}'"


def last_finished(uri: str, experiment: str, config: str) -> LoggedRun | None:
    """Return the summary run of the last finished bake-off of a config; None: there is none, or a step of it failed.

    A model that failed, or a winner that could not be registered, is to be tried again. ``uri`` is absolute; ``config``
    is the hash of the config among the bake-off's inputs.

    Raises:
        TrackingError: The store cannot be reached.
    """
    if not store_exists(uri):
        return None
    with existing_store(uri, "look for the last bake-off", settings=FAIL_FAST) as client:
        home = client.get_experiment_by_name(experiment)
        if home is None:
            return None
        finished = f"attributes.status = 'FINISHED' and tags.`{DATA_TAG}` LIKE '%{config}%'"
        runs = search_runs(client, [home.experiment_id], f"{SUMMARY_RUNS} and {finished}", limit=1)
    if not runs or runs[0].run.data.metrics.get("models_failed", 0.0) > 0 or runs[0].is_unregistered:
        return None
    return runs[0]


def _done(runs: Iterable[LoggedRun]) -> tuple[list[LoggedRun], list[str]]:
    """Return the runs that have ended by themselves, and a note on the others."""
    done, others = [], []
    for run in runs:
        if run.status in DONE:
            done.append(run)
        else:
            others.append(f"{run.name} ({run.status})")
    return done, [f"left out, as they have no results: {', '.join(others)}"] if others else []


def in_config_order(runs: Iterable[LoggedRun]) -> list[LoggedRun]:
    """Return runs bake-off by bake-off, the earliest first; each in config order, whichever was computed first."""
    started: dict[str, datetime] = {}
    earliest_first = sorted(runs, key=lambda run: run.started)
    for run in earliest_first:
        started.setdefault(run.bakeoff, run.started)
    return sorted(earliest_first, key=lambda run: (started[run.bakeoff], run.position))


def pages(fetch: Callable[[str | None], Any]) -> Iterator[list[Any]]:
    """Yield the pages of a search of MLflow's client; ``fetch`` takes the token of a page and returns the page."""
    token = None
    while True:
        page = fetch(token)
        yield page
        if not (token := page.token):
            return


def run_pages(
    client: mlflow.MlflowClient, experiments: Sequence[str], query: str, size: int
) -> Iterator[list[LoggedRun]]:
    """Yield the runs of experiments that match a filter of MLflow, the latest first, ``size`` on a page."""

    def fetch(token: str | None) -> Any:
        return client.search_runs(
            list(experiments),
            query,
            max_results=size,
            order_by=["attributes.start_time DESC"],
            page_token=token,
        )

    if experiments:
        for page in pages(fetch):
            yield [LoggedRun(client, run) for run in page]


def search_runs(
    client: mlflow.MlflowClient, experiments: Sequence[str], query: str, limit: int | None = None
) -> list[LoggedRun]:
    """Return the runs of experiments that match a filter of MLflow, the latest first: all, or ``limit`` at most."""
    runs = run_pages(client, experiments, query, min(limit or PAGE_SIZE, PAGE_SIZE))
    return list(islice(chain.from_iterable(runs), limit))
