"""``Workspace``: a config with its tracking store, cache and observer, the start of every command on a config."""

from __future__ import annotations

import os
import shlex
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Literal, Self

from evalplugin.base.errors import DataError, Problem, TrackingError
from evalplugin.base.units import bytes_of, count_text, size_text
from evalplugin.config import CheckedConfig
from evalplugin.execution.engines import Needs, Session
from evalplugin.execution.engines.local import InProcess, Local
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import Job, PreparedData, jobs_of, prepare
from evalplugin.execution.shared import private_folder
from evalplugin.execution.store import Store
from evalplugin.execution.store.folder import DEFAULT_PATH, STORE, store_path
from evalplugin.execution.store.steps import StepCache
from evalplugin.execution.worker import Limits
from evalplugin.files.inputs import folder_size, inputs_named_in
from evalplugin.files.uris import PROGRAM, scheme_of
from evalplugin.tracking.connection import is_missing
from evalplugin.tracking.location import resolve_uri
from evalplugin.tracking.read.uris import stored_version, uri_version

Mode = Literal["run", "fresh", "resume"]


@dataclass(frozen=True)
class Workspace:
    """A checked config, with the places and the observer of one command. Make it with ``open``."""

    config: CheckedConfig
    uri: str  # of the tracking store, absolute
    experiment: str
    observer: Observer
    mode: Mode = "run"
    data_home: Path | None = None  # where datasets are looked up before they are downloaded
    if_changed: bool = False  # whether to do nothing where data, config and code have not changed
    outcome_file: Path | None = None  # receives the outcome of the bake-off, a line of JSON

    @classmethod
    def open(
        cls,
        config: CheckedConfig,
        *,
        tracking_uri: str | None = None,
        experiment: str | None = None,
        observer: Observer | None = None,
        mode: Mode = "run",
        data_home: Path | None = None,
        only: Sequence[str] = (),
    ) -> Self:
        """Return the workspace of a config; nothing is read or written yet.

        Args:
            config: From ``evalplugin.config.load``.
            tracking_uri, experiment: Win over the config's.
            observer: Receives progress; None: progress is not reported.
            mode: ``resume``: continue the newest bake-off of this config that was cut off, in the same runs, if there
                is one. ``fresh``: take nothing from the cache.
            data_home: Folder where datasets are looked up before they are downloaded.
            only: Names of the models that are run; none: all of them.

        Raises:
            ConfigError: No model has such a name.
        """
        spec = config.spec
        uri = resolve_uri(tracking_uri or spec.tracking.uri)
        observer = observer or Observer()
        if only:
            config, notes = config.with_models(config.model_names(only))
            for note in notes:
                observer.report(f"{config.name}: {note}")
        return cls(config, uri, experiment or spec.experiment, observer, mode, data_home)

    @property
    def fresh(self) -> bool:
        """Whether all is computed anew."""
        return self.mode == "fresh"

    @cached_property
    def cache(self) -> StepCache:
        """The cache of finished steps, opened at its first use.

        Raises:
            StoreError: The store cannot be used.
        """
        own = {uri for model in self.config.models for uri in model.stored_uris.values()}
        resolve = partial(uri_version, tracking_uri=self.uri, own=own)
        spec = self.config.spec.store
        store = Store(store_path(spec.path), max_size=spec.max_size, report=self.observer.report)
        return StepCache(store, self.fresh, resolve=resolve)

    def prepare(self) -> list[PreparedData]:
        """Return every dataset under every split.

        Raises:
            DataError: Data that is missing or breaks a rule.
        """
        return prepare(self.config, self.data_home, self.observer)

    def jobs(self, prepared: Sequence[PreparedData]) -> list[Job]:
        """Return a job for every model on every dataset under every split, in the order of the config."""
        return jobs_of(self.config, prepared, tracking_uri=self.uri)

    def check_stored(self) -> None:
        """Look up the models and runs that models of the config read from the tracking store.

        Raises:
            ConfigError: A model or run is not there; with its place in the config.
            TrackingError: The store cannot be reached.
        """
        problems = []
        for model in self.config.models:
            for parameter, uri in model.stored_uris.items():
                try:
                    stored_version(uri, self.uri)
                except (DataError, TrackingError) as error:
                    if isinstance(error, TrackingError) and not is_missing(error):
                        raise
                    path = (*model.path, "params", parameter) if model.path else ()
                    problems.append(Problem(path, str(error)))
        if problems:
            raise self.config.document.error(problems)

    def look_up_inputs(self, jobs: Sequence[Job]) -> dict[str, str]:
        """Return the fingerprints of the inputs that parameters of models and splits name, or the config declares.

        A program without a version is run again, and is not compared. The sizes of compared folders are reported.

        Raises:
            DataError: A declared input whose changes cannot be recognised.
        """
        with self.observer.progress("look up the inputs of models"):
            for model in self.config.models:
                try:
                    names = list(model.declared_inputs(self.config.folder))
                    self.cache.declare([name for name in names if scheme_of(name) != PROGRAM])
                except DataError as error:
                    raise DataError(f"inputs of the model {model.name}: {error}") from None
                for name in names:
                    if name.endswith("/") and scheme_of(name) is None:
                        files, size = folder_size(name)
                        compared = f"{count_text(files, 'file')} ({size_text(size)})"
                        self.observer.report(f"{model.name} depends on {compared} in {name}")
            names = [name for job in jobs for task in job.tasks for name in task.inputs]
            folders = [self.config.folder, Path.cwd()]
            names += (name for split in self.config.splits for name in inputs_named_in(split.params, folders))
            return self.cache.named(list(dict.fromkeys(names)))

    @contextmanager
    def open_session(
        self, inputs: Mapping[str, str], *, workers: int | None = None, here: bool = False
    ) -> Generator[Session]:
        """Yield a session of the config's engine, with a folder for its files that no other user can write to.

        Args:
            inputs: Files that tasks read, with fingerprints, which must be the same on every node.
            workers: Tasks at a time; None: as in the config.
            here: Whether the session computes nothing, so that no other process is needed.

        Raises:
            EngineError: The engine cannot run the tasks.
        """
        config, limits = self.config, self.config.spec.limits
        if here:
            yield InProcess()
            return
        engine = Local() if config.engine is None else config.engine.component
        if workers is None and "workers" in config.spec.model_fields_set:
            workers = config.spec.workers
        components = [("model", model.type) for model in config.models]
        components += [("metric", metric.family) for metric in config.metrics]
        with private_folder() as folder:
            needs = Needs(
                folder=folder,
                plugins=config.plugins,
                limits=Limits(limits.seconds, None if limits.memory is None else bytes_of(limits.memory)),
                workers=workers,
                components=components,
                inputs=inputs,
                base=config.folder,
                report=self.observer.report,
            )
            progress = self.observer.progress("open the engine") if config.engine else nullcontext()
            with progress, ExitStack() as opened:
                session = opened.enter_context(engine.open(needs))
                opened = opened.pop_all()
            with opened:
                yield session

    @property
    def resume_hint(self) -> str:
        """The command or the call that resumes the bake-off, which has a journal by now."""
        journal = self.cache.journal
        assert journal is not None
        if not journal.header.command:
            return "to go on: evalplugin.run(..., resume=True)"
        variable = ""
        named = os.environ.get(STORE, "")
        if journal.path.parents[1] == store_path(named) != store_path(DEFAULT_PATH):
            variable = f"{STORE}={shlex.quote(named)} "  # else the command would look into another store
        return f"to go on: {variable}python -m evalplugin run --resume {shlex.join(journal.header.command)}"

    @property
    def users_per_task(self) -> int | None:
        """The number of test users above which a model's users are split into ranges; None: never."""
        engine = Local() if self.config.engine is None else self.config.engine.component
        return getattr(engine, "users_per_task", None)
