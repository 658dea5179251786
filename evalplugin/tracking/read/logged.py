"""The run of one model, read back from MLflow."""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from evalplugin.base.errors import TrackingError, UnknownNameError
from evalplugin.base.libraries import pa, pq
from evalplugin.base.places import DataSplit
from evalplugin.base.text import json_of, shorten
from evalplugin.comparison.compared import ComparedModel
from evalplugin.data.background import Background
from evalplugin.data.decisions import DECISION
from evalplugin.execution.isolation import last_line
from evalplugin.execution.results import Costs, Finding
from evalplugin.metrics import MetricSpec
from evalplugin.metrics.given import metrics_of_plain, spec_of
from evalplugin.metrics.scores import PerUserScores, Units
from evalplugin.report.competition import AS_LISTED, ModelFacts, Rules, Tuned, budget_text, split_text
from evalplugin.tracking import mlflow
from evalplugin.tracking.connection import check_stored_uri, tracking_call
from evalplugin.tracking.names import DATA_FILE, DATA_TAG, IN_FILE, metric_name, metric_names
from evalplugin.tracking.read.tables import Groups, groups_of, raw_ids

_T = TypeVar("_T")
_REPAIR = (
    "Restore it from a backup of the store's artifacts, run the bake-off again (steps in the cache are not computed "
    "again), or name other runs"
)
_METRIC_SEPARATOR = re.compile(r", (?![^()]*\))")  # a comma inside of parentheses is part of a metric's name


class LoggedRun:
    """The run of one model. Its files are read on demand, once; a missing one raises TrackingError."""

    def __init__(self, client: mlflow.MlflowClient, run: mlflow.entities.Run) -> None:
        info = run.info
        self.client, self.run = client, run
        self.id, self.name = str(info.run_id), str(info.run_name)
        self.status = str(info.status)  # RUNNING, FINISHED, FAILED or KILLED
        self.experiment_id = str(info.experiment_id)
        self.started = _time(info.start_time)
        self.ended = _time(info.end_time or info.start_time)  # of an open run: when it was started
        self.model, self.bakeoff = self.tag("model"), self.tag("bakeoff")  # name and id
        self.data_split = DataSplit(self.tag("dataset"), self.tag("split"))

    def __str__(self) -> str:
        return f"run {self.name} ({self.id})"

    def tag(self, key: str) -> str:
        """Return a tag of evalplugin, or what programs read under that name, or an empty text."""
        if (tag := self.run.data.tags.get(f"evalplugin.{key}")) is not None:
            return str(tag)
        is_in_file = key in str(self._data_tag.get(IN_FILE, "")).split(",")
        value = (self.data if is_in_file else self._data_tag).get(key, "")
        return value if isinstance(value, str) else json.dumps(value)

    @cached_property
    def data(self) -> dict[str, Any]:
        """What programs read: the values of the tag ``evalplugin.provenance``, and those that are too long for it."""
        kept = {key: value for key, value in self._data_tag.items() if key != IN_FILE}
        left = self.json_file(DATA_FILE) if len(kept) < len(self._data_tag) else None
        return kept | left if isinstance(left, dict) else kept

    @cached_property
    def _data_tag(self) -> dict[str, Any]:
        return _parsed(str(self.run.data.tags.get(DATA_TAG, "")), dict)

    @property
    def position(self) -> int:
        """The position among the runs of its bake-off, from 0; 0 where it is not known."""
        return int(self.tag("position") or 0)

    @property
    def is_unregistered(self) -> bool:
        """Whether the winner of a bake-off could not be registered; of a summary run."""
        return self.tag("registered").startswith("failed")

    def mapping(self, key: str) -> dict[str, str]:
        """Return a tag of JSON that holds a mapping; empty without one."""
        return {name: str(text) for name, text in _parsed(self.tag(key), dict).items()}

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences on the lists of the model."""
        return tuple(map(str, _parsed(self.tag("warnings"), list)))

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes from reading the table of scores."""
        return tuple(map(str, _parsed(self.tag("notes"), list)))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of the checks; empty where they are not there or cannot be read."""
        try:
            return tuple(Finding(**value) for value in _parsed(self.tag("checks"), list))
        except TypeError:
            return ()

    def param(self, key: str) -> str | None:
        """Return a parameter; None if it is missing or null."""
        text = self.run.data.params.get(key)
        return None if text in (None, "null") else str(text)

    @cached_property
    def digests(self) -> dict[str, str]:
        """Digests of the data, by context: ``training`` and ``evaluation``."""
        return {
            tag.value: given.dataset.digest
            for given in (self.run.inputs.dataset_inputs if self.run.inputs else ())
            for tag in given.tags
            if tag.key == "mlflow.data.context"
        }

    @cached_property
    def given(self) -> dict[str, MetricSpec]:
        """The metrics of a table of scores, by name; empty for other runs."""
        return metrics_of_plain(_parsed(self.tag("given"), dict))

    def spec(self, metric: str) -> MetricSpec:
        """Return a metric by its name in ``metrics``.

        Raises:
            ParameterError, UnknownNameError: A name that means no metric.
        """
        return spec_of(metric, self.given)

    @cached_property
    def rules(self) -> Rules:
        """The rules of scoring, which must be equal in two runs to compare them."""
        if "evaluation" not in self.digests:
            raise TrackingError(f"{self} does not say on which test data it was scored")
        if self.given:
            return Rules(None, self.digests["evaluation"], 0, None, None, self.tag("metrics_hash"))
        threshold = self.param("eval.threshold")
        return Rules(
            train_digest=self.digests.get("training"),
            test_digest=self.digests["evaluation"],
            n=int(self._needed("eval.n")),
            candidates=self._rule("eval.candidates"),
            threshold=None if threshold is None else float(threshold),
            metrics_hash=self.tag("metrics_hash"),
            ties=self._rule("eval.ties"),
            cold_users=self._rule("eval.cold_users"),
            pool=self.param("eval.pool"),
        )

    @property
    def is_from_elsewhere(self) -> bool:
        """Whether lists or scores were made elsewhere, with candidates and a length that are not known."""
        return self.rules.candidates is None

    @cached_property
    def folds(self) -> int:
        """The number of folds that the model was scored on."""
        return 1 if self.given else int(self._needed("split.folds"))

    @cached_property
    def seed(self) -> int:
        """The root of the bake-off's randomness."""
        return int(self._needed("eval.seed"))

    @cached_property
    def primary(self) -> str:
        """The metric that ranked the models of the bake-off."""
        return self._needed("eval.primary")

    @property
    def metrics(self) -> list[str]:
        """Canonical names of the metrics, in config order."""
        return list(self.given) or _METRIC_SEPARATOR.split(self.param("eval.metrics") or "")

    @cached_property
    def definitions(self) -> dict[str, str]:
        """A hash of each metric's definition, by canonical name, in config order."""
        known = self.mapping("definitions")
        # An unknown definition equals none but itself in the same whole set of definitions.
        unknown = f"unknown, of {self.tag('metrics_hash')[:12]}"
        if not self.given:
            self._needed("eval.metrics")
        for name in self.metrics:
            try:
                self.spec(name)
            except UnknownNameError as error:
                raise UnknownNameError(
                    f"{self} was scored by a metric that is not known here: {error}; --plugin FILE brings a metric of "
                    f"your own"
                ) from None
        return {name: known.get(name, unknown) for name in self.metrics}

    @property
    def _tuned(self) -> Tuned | None:
        """How the model was tuned; None where it was not."""
        params, metrics = self.run.data.params, self.run.data.metrics
        if (metric := params.get("tune.metric")) is None:
            return None
        split, budget = (
            {key.removeprefix(prefix): text for key, text in params.items() if key.startswith(prefix)}
            for prefix in ("tune.split.", "tune.budget.")
        )
        limits = {key: float(text) for key, text in budget.items() if text != "null"}
        return Tuned(metric, split_text(split), budget_text(limits), metrics.get("tune/optimism", math.nan))

    @cached_property
    def error(self) -> str | None:
        """The exception of a failed model, in one line; None for one that did not fail."""
        if self.status != "FAILED":
            return None
        if "traceback.txt" not in {file.path for file in self._artifacts.list_artifacts()}:
            return last_line("")
        return self._read("traceback.txt", lambda file: last_line(file.read_text("utf-8", "replace")))

    @cached_property
    def result(self) -> ComparedModel:
        """The model's scores."""
        scores = None
        fold_means: tuple[Mapping[str, float], ...] = ()
        seed_means: tuple[Mapping[str, float], ...] = ()
        if self.error is None:
            scores = self._scores()
            if not self.given:
                fold_means = (scores.means,) if self.folds == 1 else self._means_at("fold", self.folds)
            if self.param("eval.seeds") is not None and (seeds := int(self._needed("eval.seeds"))) > 1:
                seed_means = self._means_at("seed", seeds)
        return ComparedModel(self.model, scores, fold_means, seed_means, self.error, self.id)

    @property
    def facts(self) -> ModelFacts:
        """The facts about the model beside its scores, without the lists."""
        logged = self.run.data.metrics
        costs = {cost.name: logged.get(f"cost/{cost.name}", math.nan) for cost in fields(Costs)}
        return ModelFacts(
            type=self.tag("model_type"),
            costs=None if all(map(math.isnan, costs.values())) else Costs(**costs),
            tuned=self._tuned,
        )

    def table(self, name: str) -> pa.Table | None:
        """Return a table of the folder ``data``, checked; None where the run was logged without it."""
        path = f"data/{name}.parquet"
        if path not in self._files:
            return None
        return self._read(path, pq.read_table)

    def json_file(self, path: str) -> Any:
        """Return the content of a JSON file in the folder ``data``, checked; None where the run has none."""
        if path not in self._files:
            return None
        return self._read(path, lambda file: json_of(file.read_bytes()))

    @property
    def background(self) -> Background | None:
        """The truth, history and titles; None where they are not there."""
        truth, history, titles = (self.table(name) for name in ("truth", "history", "titles"))
        if truth is None or history is None:
            return None
        names: dict[str, list[Any]] = {"item": [], "title": []} if titles is None else titles.to_pydict()
        return Background(truth, history, dict(zip(names["item"], names["title"], strict=True)))

    @cached_property
    def groups(self) -> Groups:
        """The groups of users, lengths of histories and clusters; none of them where they are not there."""
        path = "data/segments.parquet"
        return self._read(path, groups_of) if path in self._files else Groups()

    @property
    def recorded_inputs(self) -> dict[str, str]:
        """The fingerprints of the files and other inputs that a bake-off's models have used; of a summary run."""
        return {row["input"]: row["fingerprint"] for row in self.json_file("data/inputs.json") or ()}

    def _rule(self, key: str) -> str | None:
        """Return a rule of the lists; None: it is not known, as they were made elsewhere."""
        text = self._needed(key)
        return None if text == AS_LISTED else text

    def _needed(self, key: str) -> str:
        text = self.param(key)
        if text is None:
            raise TrackingError(f"{self} has no parameter {key}: it was not logged as a model's run is")
        return text

    @property
    def _artifacts(self) -> Any:
        """The place of the run's files: by the run's id, MLflow would read the run anew for each of them.

        A new object each time, as MLflow's keep the thread that they download with.
        """
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        store = self.client.tracking_uri
        return get_artifact_repository(
            check_stored_uri(self.run.info.artifact_uri, store), tracking_uri=store
        )

    def local_file(self, path: str) -> Path:
        """Return a file of this machine that is an artifact: its own where the store is here, or a download.

        Raises:
            TrackingError: The run has no such artifact, or it cannot be downloaded.
        """
        with tracking_call(self.client.tracking_uri, f"read the artifact {path} of {self}"):
            return Path(self._artifacts.download_artifacts(path))

    @cached_property
    def _files(self) -> frozenset[str]:
        return frozenset(file.path for file in self._artifacts.list_artifacts("data"))

    def _read(self, path: str, read: Callable[[Path], _T]) -> _T:
        """Return an artifact, downloaded and read.

        Raises:
            TrackingError: It is damaged, or cannot be downloaded.
        """
        with (
            tempfile.TemporaryDirectory(prefix="evalplugin-") as folder,
            tracking_call(self.client.tracking_uri, f"read the artifact {path} of {self}"),
        ):
            file = Path(self._artifacts.download_artifacts(path, folder))
            try:
                return read(file)
            except (ValueError, KeyError, TypeError, OSError, pa.ArrowException) as error:
                why = f"{type(error).__name__}: {shorten(' '.join(str(error).split()), 300)}"
                raise TrackingError(f"{self}: the artifact {path} is damaged ({why}). {_REPAIR}") from None

    def _scores(self) -> PerUserScores:
        table = self.table("per_user")
        if table is None:
            raise TrackingError(
                f"{self} has no data/per_user.parquet: without every user's scores it cannot be compared. {_REPAIR}"
            )
        names = tuple(name for name in table.column_names if name != "user")
        columns = [table.column(name).to_numpy() for name in names]
        families = dict.fromkeys(self.spec(m).at(None).name for m in self.definitions)
        curves = {f: self._history(f"at_k/{name}") for f, name in metric_names(families).items()}
        logged = self.run.data.metrics
        users = raw_ids(table.column("user"))
        values = np.stack(columns, axis=1) if columns else np.empty((len(table), 0))
        noun = self.tag("unit") or "user"
        may_have_clusters = self.given or noun == DECISION or self.param("split.cluster") is not None
        clusters = self.groups.clusters if may_have_clusters else None
        if self.given:
            return PerUserScores(Units(users, noun, clusters), values, names)
        return PerUserScores(
            units=Units.of_lists(users, noun, clusters),
            values=values,
            metrics=names,
            # Undefined values were not logged.
            overall={m: logged.get(metric_name(m), math.nan) for m in self.definitions if m not in names},
            at_k={family: curve for family, curve in curves.items() if curve},
            pr_curve=self._history("pr_curve/precision"),
        )

    def _means_at(self, kind: Literal["fold", "seed"], steps: int) -> tuple[Mapping[str, float], ...]:
        """Return the means of each fold or seed."""
        values = {m: self._history(f"{kind}/{name}") for m, name in metric_names(self.definitions).items()}
        return tuple(
            {metric: means.get(step, math.nan) for metric, means in values.items()}
            for step in range(1, steps + 1)
        )

    def _history(self, key: str) -> dict[int, float]:
        """Return a metric's value at each step, in their order; nothing where it was not logged."""
        if key not in self.run.data.metrics:
            return {}
        points = self.client.get_metric_history(self.id, key)
        return {point.step: point.value for point in sorted(points, key=lambda point: point.step)}


def _time(milliseconds: int | None) -> datetime:
    """Return a time of a run; 1970 where it has none."""
    return datetime.fromtimestamp((milliseconds or 0) / 1000, UTC)


def _parsed(text: str, kind: type[_T]) -> _T:
    """Return the value of a kind that JSON holds; an empty one of an empty text."""
    value: _T = json_of(text) if text else kind()
    return value
