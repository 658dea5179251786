"""Which runs are compared: those of a bake-off, those that are named, or each model's latest in an experiment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalplugin.base.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

__all__ = ["LATEST", "Found", "experiments_called", "find_runs", "in_config_order"]

LATEST = "latest"  # in place of a bake-off's id: the one that was finished last
_LOOKED_AT = 1000  # runs, the latest, when each model's latest is looked for
_DONE = ("FINISHED", "FAILED")
_MODELS = "tags.`evalplugin.role` = 'model'"
_RUN_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Found:
    """Runs of models, what they are together called, and what was decided in choosing them, in words."""

    runs: tuple[Run, ...]
    name: str
    notes: tuple[str, ...] = ()


def find_runs(
    client: MlflowClient, store: str, *, bakeoff: str | None, runs: Sequence[str], experiment: str | None
) -> Found:
    """Return the runs that were asked for; ``store`` is what the store is called in messages.

    Raises:
        DataError: Nothing is there by that name, or it is not a run with results of ours; two ways to choose at once.
    """
    if runs and bakeoff is not None:
        raise DataError(f"give runs or a bake-off, not both: {', '.join(runs)} and {bakeoff}")
    scope = _Scope.of(client, store, experiment)
    if runs:
        return scope.named(runs)
    if experiment is not None and bakeoff is None:
        return scope.latest_of_each_model()
    return scope.bakeoff(bakeoff or LATEST)


def experiments_called(client: MlflowClient, store: str, name: str | None) -> dict[str, str]:
    """Return the names of experiments by id: the one that is named, or all that are not deleted.

    Raises:
        DataError: None has the name.
    """
    if name is not None:
        experiment = client.get_experiment_by_name(name)
        if experiment is not None and experiment.lifecycle_stage == "active":
            return {str(experiment.experiment_id): name}
    every: dict[str, str] = {}
    token = None
    while True:
        page = client.search_experiments(page_token=token)
        every.update({e.experiment_id: e.name for e in page})
        if not (token := page.token):
            break
    if name is not None:
        near = did_you_mean(name, list(every.values()), noun="there are")
        raise DataError(f"{store} has no experiment {name!r}{near}")
    return every


@dataclass(frozen=True)
class _Scope:
    """Where to look: one experiment, or all that are not deleted."""

    client: MlflowClient
    experiments: dict[str, str]  # id -> name
    words: str  # for messages

    @classmethod
    def of(cls, client: MlflowClient, store: str, name: str | None) -> _Scope:
        found = experiments_called(client, store, name)
        return cls(client, found, store if name is None else f"the experiment {name!r}")

    def bakeoff(self, bakeoff: str) -> Found:
        """Return the models of one bake-off, in config order."""
        notes = []
        if bakeoff == LATEST:
            bakeoff, where = self._latest_bakeoff()
            notes.append(f"the latest bake-off of {self.words}: {bakeoff}{where}; --bakeoff ID takes another")
        runs = (
            [] if "'" in bakeoff else self._search(f"{_MODELS} and tags.`evalplugin.bakeoff` = '{bakeoff}'")
        )
        if not runs:
            known = list(dict.fromkeys(_tag(run, "bakeoff") for run in self._search(_MODELS, _LOOKED_AT)))
            raise DataError(
                f"{self.words} has no bake-off {bakeoff!r}{did_you_mean(bakeoff, known[:10], noun='latest')}"
            )
        done, undone = _done(runs)
        return Found(tuple(in_config_order(done)), bakeoff, (*notes, *undone))

    def named(self, names: Sequence[str]) -> Found:
        """Return runs by id, or the latest of each name: a run's name, or a model's."""
        found: dict[str, Run] = {}
        for name in names:
            runs = [self._by_id(name)] if _RUN_ID.fullmatch(name) else self._by_name(name)
            found.update({run.info.run_id: run for run in runs})
        homes = dict.fromkeys(run.info.experiment_id for run in found.values())
        bakeoffs = dict.fromkeys(_tag(run, "bakeoff") for run in found.values())
        called = bakeoffs if len(bakeoffs) == 1 else [self.experiments.get(home, home) for home in homes]
        return Found(tuple(found.values()), ", ".join(called))

    def latest_of_each_model(self) -> Found:
        """Return each model's latest run, for each dataset and split, the earliest first."""
        runs = self._search(_MODELS, _LOOKED_AT)
        if not runs:
            raise DataError(
                f"{self.words} has no runs of evalplugin's models; make some: python -m evalplugin run"
            )
        notes = []
        if len(runs) == _LOOKED_AT:
            notes.append(f"only the latest {_LOOKED_AT:,} runs of {self.words} were looked at")
        done, undone = _done(runs)
        latest: dict[tuple[str, ...], Run] = {}
        for run in done:
            latest.setdefault(tuple(_tag(run, key) for key in ("dataset", "split", "model")), run)
        return Found(
            tuple(in_config_order(latest.values())), ", ".join(self.experiments.values()), (*notes, *undone)
        )

    def _latest_bakeoff(self) -> tuple[str, str]:
        finished = "tags.`evalplugin.role` = 'summary' and attributes.status = 'FINISHED'"
        runs = self._search(finished, 1)
        if not runs:
            raise DataError(
                f"{self.words} has no finished bake-off; name runs or an experiment, or make one: "
                f"python -m evalplugin run CONFIG"
            )
        of = (
            ""
            if len(self.experiments) == 1
            else f" (experiment {self.experiments[runs[0].info.experiment_id]!r})"
        )
        return _tag(runs[0], "bakeoff"), of

    def _by_id(self, run_id: str) -> Run:
        from mlflow.exceptions import MlflowException

        try:
            run = self.client.get_run(run_id)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            raise DataError(f"no run has the id {run_id}") from None
        role = _tag(run, "role")
        if role == "summary":
            raise DataError(
                f"run {run_id} is the summary of a bake-off: compare its models with --bakeoff {_tag(run, 'bakeoff')}"
            )
        if role != "model":
            raise DataError(
                f"run {run_id} ({run.info.run_name}) is not a run of evalplugin: it has no scores of users"
            )
        if run.info.status not in _DONE:
            raise DataError(f"run {run_id} ({run.info.run_name}) is {run.info.status}: it has no results")
        return run

    def _by_name(self, name: str) -> list[Run]:
        quote = '"' if "'" in name else "'"
        found: dict[str, Run] = {}
        # With several datasets or splits, a run is called more than its model.
        for key in () if quote in name else ("attributes.run_name", "tags.`evalplugin.model`"):
            page = self._search(f"{_MODELS} and {key} = {quote}{name}{quote}", _LOOKED_AT)
            found.update({run.info.run_id: run for run in _done(page)[0]})
        runs = sorted(found.values(), key=lambda run: run.info.start_time, reverse=True)
        if not runs:
            known = dict.fromkeys(run.info.run_name for run in self._search(_MODELS, _LOOKED_AT))
            near = did_you_mean(name, list(known), noun="there are")
            raise DataError(f"{self.words} has no run with results called {name!r}{near}")
        homes = dict.fromkeys(self.experiments[run.info.experiment_id] for run in runs)
        if len(homes) > 1:
            raise DataError(
                f"{name!r} is a run of several experiments: choose one with --experiment: {', '.join(homes)}"
            )
        latest: dict[tuple[str, str], Run] = {}
        for run in runs:
            latest.setdefault((_tag(run, "dataset"), _tag(run, "split")), run)
        return list(latest.values())

    def _search(self, query: str, most: int | None = None) -> list[Run]:
        """Return the runs that fit, latest first, at most so many."""
        runs: list[Run] = []
        token = None
        while self.experiments:
            page = self.client.search_runs(
                list(self.experiments),
                query,
                max_results=min(most or _LOOKED_AT, _LOOKED_AT),
                order_by=["attributes.start_time DESC"],
                page_token=token,
            )
            runs += page
            if not (token := page.token) or (most is not None and len(runs) >= most):
                break
        return runs


def _done(runs: Iterable[Run]) -> tuple[list[Run], list[str]]:
    """Return the runs that have come to an end of their own, and a line about the others."""
    every = list(runs)
    others = [f"{run.info.run_name} ({run.info.status})" for run in every if run.info.status not in _DONE]
    notes = [f"left out, as they have no results: {', '.join(others)}"] if others else []
    return [run for run in every if run.info.status in _DONE], notes


def in_config_order(runs: Iterable[Run]) -> list[Run]:
    """Return runs bake-off by bake-off, the earliest first; each in config order, whatever was computed first."""
    every = list(runs)
    begun: dict[str, int] = {}
    for run in every:
        bakeoff, start = _tag(run, "bakeoff"), run.info.start_time
        begun[bakeoff] = min(start, begun.get(bakeoff, start))

    def place(run: Run) -> tuple[int, int, int]:
        return begun[_tag(run, "bakeoff")], int(_tag(run, "place") or 0), run.info.start_time

    return sorted(every, key=place)


def _tag(run: Run, key: str) -> str:
    return str(run.data.tags.get(f"evalplugin.{key}", ""))
