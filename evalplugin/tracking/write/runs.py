"""The runs of one bake-off in an MLflow store: started, logged into and ended, by plain values that can be pickled."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import starmap
from typing import Any, Concatenate, ParamSpec, TypeVar

from evalplugin.base.errors import TrackingError
from evalplugin.base.secrets import redact
from evalplugin.base.signals import ignore_signals
from evalplugin.tracking import mlflow
from evalplugin.tracking.connection import FAIL_FAST, attempt, connect, tracking_call
from evalplugin.tracking.location import artifact_location
from evalplugin.tracking.read.logged import VALUES
from evalplugin.tracking.read.runs import DONE, models_filter, search_runs
from evalplugin.tracking.write.board import Links, save_board
from evalplugin.tracking.write.items import Artifact, Item, Tag
from evalplugin.tracking.write.logged_models import NO_LOGGED_MODELS, of_logged_model, open_logged_model
from evalplugin.tracking.write.provenance import is_gone, process_tags
from evalplugin.tracking.write.writer import RunWriter

P = ParamSpec("P")
T = TypeVar("T")
Key = tuple[str, str, str]  # of a model's run: dataset, split and model

_KIND = {"mlflow.experimentKind": "custom_model_development"}


@dataclass
class Runs:
    """The runs of one bake-off in a store that is used in this process. Make it with ``open``."""

    uri: str  # absolute
    bakeoff: str  # id
    client: mlflow.MlflowClient = field(repr=False)
    writer: RunWriter = field(repr=False)
    summary: str | None = (
        None  # id of the run that `mlflow run` has started for the bake-off, or of a resumed one
    )
    ids: dict[Key, str] = field(
        default_factory=dict, repr=False
    )  # of the models' runs: started here, or resumed
    complete: set[Key] = field(default_factory=set, repr=False)  # the runs whose results are logged
    keeps_models: bool = True  # whether the store keeps logged models

    @classmethod
    def open(
        cls,
        uri: str,
        experiment: str,
        bakeoff: str,
        *,
        resume: Mapping[str, str] | None = None,
    ) -> Runs:
        """Return the runs of a bake-off in a reachable store, whose experiment has no dead runs of this machine.

        Args:
            uri: The absolute tracking URI.
            experiment: Its name.
            bakeoff: The id of the bake-off.
            resume: Tags of the process that resumes the bake-off's existing runs; None: they are not resumed.

        Raises:
            TrackingError: The store cannot be reached or used, the experiment is deleted.
        """
        client = connect(uri)
        with tracking_call(uri, f"open the experiment {experiment!r}", settings=FAIL_FAST):
            experiment_id = _open_experiment(client, uri, experiment)
        runs = cls(uri, bakeoff, client, RunWriter(client, experiment_id))
        with tracking_call(uri, "look for runs of ours that were cut off", settings=FAIL_FAST):
            if resume is not None:
                runs._resume(resume)  # first, as the process of these runs has ended too
            _close_dead_runs(client, experiment_id)
        if runs.summary is None and (run_id := os.environ.get("MLFLOW_RUN_ID")):
            with tracking_call(uri, f"adopt the run of MLFLOW_RUN_ID={run_id}", settings=FAIL_FAST):
                run = client.get_run(run_id)
            # With another status, an earlier bake-off of this process has ended it.
            if run.info.status in ("RUNNING", "SCHEDULED"):
                runs.summary = runs.writer.attach(run)
                runs.writer.open_runs.add(run_id)
        return runs

    @property
    def experiment_id(self) -> str:
        """The experiment of all runs."""
        return self.writer.experiment_id

    def start(self, key: Key, name: str, tags: Sequence[Tag]) -> None:
        """Start the run of a model; a resumed run has started."""
        if key not in self.ids:
            with tracking_call(self.uri, f"start the run of {key[-1]}"):
                self.ids[key] = self.writer.start(name, tags)

    def finish(self, key: Key, items: Sequence[Item], *, failed: bool) -> None:
        """Log the items of a model's run and of its logged model, and end both."""
        run_id, model_name = self.ids[key], key[-1]
        with tracking_call(self.uri, f"log {model_name}"):
            # New for the first attempt alone, which may have created a logged model although it failed.
            run = self.writer.new_runs.pop(run_id, None)
            if (model := open_logged_model(self.client, run_id, items, new=run)) is None:
                self.keeps_models = False
            self.writer.log(run_id, of_logged_model(items, model))
        with tracking_call(self.uri, f"end the run of {model_name}"):
            if model is not None:
                self.client.finalize_logged_model(model.model_id, "FAILED" if failed else "READY")
            self.writer.end(run_id, "FAILED" if failed else "FINISHED")
        self.complete.add(key)

    def run_id(self, key: Key) -> str:
        """Return the id of a model's run."""
        return self.ids[key]

    def fail(self, key: Key, error: str) -> None:
        """End a model's run as FAILED, and log a traceback; whatever cannot be logged is left out."""
        with suppress(TrackingError), tracking_call(self.uri, "end a run", settings=FAIL_FAST):
            self.writer.end(self.ids[key], "FAILED")
            self.writer.log(self.ids[key], [Artifact("traceback.txt", error)])

    def log(self, purpose: str, items: Mapping[Key, Sequence[Item]]) -> None:
        """Log further items into models' runs; ``purpose`` is for the error."""
        with tracking_call(self.uri, purpose):
            for key, of_run in items.items():
                self.writer.log(self.ids[key], of_run)

    def log_standings(self, items: Mapping[Key, Sequence[Item]]) -> None:
        """Log into models' runs what needs all models; their values are sealed anew."""
        with tracking_call(self.uri, "log the differences"):
            found = search_runs(self.client, [self.experiment_id], models_filter(self.bakeoff))
            seals = {run.id: run.seal for run in found}
            for key, of_run in items.items():
                run_id = self.ids[key]
                self.writer.log(run_id, [*of_run, Tag(VALUES, seals[run_id])])

    def start_summary(
        self,
        name: str,
        tags: Sequence[Tag],
        *,
        board: tuple[Mapping[str, Any] | None] | None,
        compared: Sequence[Key],
    ) -> Links:
        """Start the summary run and return the links to all pages.

        Args:
            name: Name of the run.
            tags: Its tags.
            board: The board to save, from ``board_of``, as a tuple; None: no board.
            compared: The models' runs to compare, best first.
        """
        key, warnings = None, []
        if board is not None:
            try:  # MLflow does not document saved views: without one the link opens the plain page
                with tracking_call(self.uri, "save the board"):
                    key = save_board(self.client, self.experiment_id, self.bakeoff, *board)
            except TrackingError as error:
                warnings.append(str(error))
        if not self.keeps_models:
            warnings.append(NO_LOGGED_MODELS)
        if self.summary is None:
            with tracking_call(self.uri, "start the summary run"):
                self.summary = self.writer.start(name, tags)
        else:
            with tracking_call(self.uri, "tag the summary run"):
                # The source that `mlflow run` has logged must not change.
                self.writer.log(self.summary, [tag for tag in tags if not tag.key.startswith("mlflow.")])
        return Links(
            tracking_uri=redact(self.uri),
            experiment_id=self.experiment_id,
            summary_run_id=self.summary,
            bakeoff=self.bakeoff,
            board=key,
            compared=tuple(self.ids[model] for model in compared),
            warnings=tuple(warnings),
        )

    def log_summary(self, items: Sequence[Item]) -> None:
        """Log items into the summary run."""
        assert self.summary is not None
        with tracking_call(self.uri, "log the summary run"):
            self.writer.log(self.summary, items)

    def end_summary(self, status: str) -> None:
        """End the summary run."""
        assert self.summary is not None
        with tracking_call(self.uri, "end the summary run"):
            self.writer.end(self.summary, status)

    def tag(self, run_id: str, tag: Tag) -> None:
        """Set a tag of a run, which may have ended."""
        with tracking_call(self.uri, f"tag the run {run_id}"):
            self.writer.log(run_id, [tag])

    def read(
        self,
        purpose: str,
        function: Callable[Concatenate[mlflow.MlflowClient, str, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return what a function reads from the store; given the client, the experiment's id and the arguments."""
        with tracking_call(self.uri, purpose):
            return function(self.client, self.experiment_id, *args, **kwargs)

    def wait(self) -> None:
        """Wait until all is logged: it is."""

    def end_open(self) -> None:
        """End the runs that are still open as KILLED."""
        with (
            ignore_signals(),
            suppress(TrackingError),
        ):  # after a first failure the store gets no further requests
            for run_id in sorted(self.writer.open_runs):
                with tracking_call(self.uri, "end a run", settings=FAIL_FAST):
                    self.writer.end(run_id, "KILLED")
        self.writer.open_runs.clear()

    def _resume(self, process: Mapping[str, str]) -> None:
        """Attach to the bake-off's existing runs; incomplete ones become runs of the process with these tags."""
        query = f"tags.`evalplugin.bakeoff` = '{self.bakeoff}'"
        seen = set()
        found = search_runs(self.client, [self.experiment_id], query)
        for run in sorted(found, key=lambda run: run.status not in DONE):  # complete runs first
            key = (run.tag("dataset"), run.tag("split"), run.model)
            if (run.tag("role"), *key) in seen:
                # The answer to its start was lost, and the retry started another one.
                if run.status not in ("KILLED", *DONE):
                    self.client.set_terminated(run.id, "KILLED")
                continue
            seen.add((run.tag("role"), *key))
            run_id = self.writer.attach(run.run)
            if run.tag("role") == "summary":
                self.summary = run_id
            else:
                self.ids[key] = run_id
                if run.status in DONE:
                    self.complete.add(key)
            if run.status not in DONE:
                self.writer.log(run_id, starmap(Tag, process.items()))
                self.client.update_run(run_id, status="RUNNING")
                self.writer.open_runs.add(run_id)


def _open_experiment(client: mlflow.MlflowClient, uri: str, name: str) -> str:
    """Return the id of the named experiment, created if it is missing, and marked as one of models."""
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        location = artifact_location(uri, name)
        made = attempt("RESOURCE_ALREADY_EXISTS", client.create_experiment, name, location, tags=_KIND)
        # None: another process was faster.
        return str(made) if made is not None else _open_experiment(client, uri, name)
    if experiment.lifecycle_stage != "active":
        raise TrackingError(
            f"MLflow at {uri}: the experiment {name!r} (id {experiment.experiment_id}) is deleted; "
            f"choose another name, or restore it: MLFLOW_TRACKING_URI={shlex.quote(redact(uri))} mlflow experiments "
            f"restore --experiment-id {experiment.experiment_id}"
        )
    for key, value in _KIND.items():
        if key not in experiment.tags:
            client.set_experiment_tag(experiment.experiment_id, key, value)
    return str(experiment.experiment_id)


def _close_dead_runs(client: mlflow.MlflowClient, experiment_id: str) -> None:
    """End as KILLED the runs of an experiment that are RUNNING though the process that made them here is gone."""
    host = process_tags()["evalplugin.host"].replace("'", "")
    query = f"attributes.status = 'RUNNING' and tags.`evalplugin.host` = '{host}'"
    for run in search_runs(client, [experiment_id], query):
        if is_gone(run.run.data.tags):
            client.set_terminated(run.id, "KILLED")
