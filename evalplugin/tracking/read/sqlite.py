"""Runs of a SQLite store, read without MLflow, whose import takes longer than reading a bake-off."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias, Union

from evalplugin.tracking import mlflow
from evalplugin.tracking.connection import PATIENT, existing_store, tracking_call
from evalplugin.tracking.location import WORKSPACE_VARIABLE, resolve_uri, sqlite_path

# The last migrations of stores whose tables are those that are read here, up to that of MLflow 3.17.
_MIGRATIONS = frozenset({
    "1b5f0d9ad7c1", "e1f2a3b4c5d6", "76601a5f987d", "c3d6457b6d8a", "a5b4c3d2e1f0", "ae8bbe7743c9", "7d34483879f0",
    "da6fb0208061", "89d3d66ed43f", "b7e4c1a90f23", "a8b9c0d1e2f3", "c1d2e3f4a5b6", "c3d9e7f1a2b4", "6f8d9c3b2a1e",
    "1971f2d9a75b", "17e22815139b", "b7e2c1a4d9f3", "75868b020152", "dc11669786a5",
})  # fmt: skip
_CONDITION = re.compile(r"""(attributes|tags)\.`?([\w.]+)`? (=|LIKE) (?:'([^']*)'|"([^"]*)")(?: and |$)""")
_STAGES = {1: ("active",), 2: ("deleted",), 3: ("active", "deleted")}  # by MLflow's ViewType


@contextmanager
def readable_store(
    tracking_uri: str | None, purpose: str, *, settings: Mapping[str, str] = PATIENT
) -> Iterator[RunReader]:
    """Yield what reads the runs of a store that exists.

    Arguments and errors are those of ``existing_store``.
    """
    uri = resolve_uri(tracking_uri)
    if (reader := SqliteReader.of(uri)) is None:
        with existing_store(uri, purpose, settings=settings) as client:
            yield client
    else:
        with tracking_call(uri, purpose, settings=settings):
            yield reader


class Page(list[Any]):
    """A page of a search; ``token``: that of the next page, None for the last one."""

    token: str | None = None


@dataclass(frozen=True)
class SqliteReader:
    """The methods of MLflow's client that read runs, with the same arguments and order of results.

    What they return has those attributes of MLflow's entities that are used here.
    """

    tracking_uri: str
    path: Path

    @classmethod
    def of(cls, uri: str) -> SqliteReader | None:
        """Return a reader of a store; None where it is not a SQLite file with the tables and values known here."""
        path = sqlite_path(uri)
        plain = uri.startswith("sqlite:///") and "?" not in uri
        if path is None or not plain or not path.exists() or os.environ.get(WORKSPACE_VARIABLE):
            return None
        reader = cls(uri, path)
        try:
            found = reader._rows("SELECT version_num FROM alembic_version")
            others = reader._rows("SELECT 1 FROM experiments WHERE workspace <> 'default' LIMIT 1")
        except sqlite3.Error:  # of which MLflow says what it is
            return None
        return reader if {row[0] for row in found} <= _MIGRATIONS and found and not others else None

    def get_experiment_by_name(self, name: str) -> SimpleNamespace | None:
        """Return the experiment of this name, deleted or not; None: there is none."""
        return next(iter(self._experiments("name = ?", name)), None)

    def search_experiments(self, *, page_token: str | None = None) -> Page:
        """Return all experiments that are not deleted, the latest first."""
        return Page(self._experiments("lifecycle_stage = 'active'"))

    def get_run(self, run_id: str) -> Any:
        """Return a run, deleted or not.

        Raises:
            MlflowException: RESOURCE_DOES_NOT_EXIST.
        """
        if runs := self._runs("WHERE run_uuid = ?", run_id):
            return runs[0]
        raise mlflow.exceptions.MlflowException(
            f"Run with id={run_id} not found", error_code=mlflow.protos.databricks_pb2.RESOURCE_DOES_NOT_EXIST
        )

    def search_runs(
        self,
        experiment_ids: Sequence[str],
        filter_string: str,
        run_view_type: int,
        max_results: int,
        order_by: Sequence[str],
        page_token: str | None = None,
    ) -> Page:
        """Return a page of runs, the latest first.

        ``filter_string``: conditions on texts of attributes and tags, ``=`` or ``LIKE``, with ``and`` between them.
        """
        assert list(order_by) == ["attributes.start_time DESC"]
        stages = _STAGES[run_view_type]
        where = [f"experiment_id IN ({_marks(experiment_ids)})", f"lifecycle_stage IN ({_marks(stages)})"]
        values: list[Any] = [*map(int, experiment_ids), *stages]
        for condition, given in _conditions(filter_string):
            where.append(condition)
            values += given
        offset = int(page_token or 0)
        runs = self._runs(
            f"WHERE {' AND '.join(where)} ORDER BY start_time DESC, run_uuid LIMIT ? OFFSET ?",
            *values, max_results + 1, offset,
        )  # fmt: skip
        page = Page(runs[:max_results])
        page.token = str(offset + max_results) if len(runs) > max_results else None
        return page

    def get_metric_history(self, run_id: str, key: str) -> list[Any]:
        """Return all values of a metric of a run."""
        rows = self._rows(
            "SELECT step, value, is_nan FROM metrics WHERE run_uuid = ? AND key = ? ORDER BY timestamp, step, value",
            run_id, key,
        )  # fmt: skip
        return [SimpleNamespace(step=step, value=_value(value, is_nan)) for step, value, is_nan in rows]

    def _experiments(self, where: str, *values: str) -> list[SimpleNamespace]:
        rows = self._rows(
            f"SELECT experiment_id, name, lifecycle_stage FROM experiments WHERE {where} "
            f"ORDER BY last_update_time DESC, experiment_id",
            *values,
        )
        return [SimpleNamespace(experiment_id=str(i), name=n, lifecycle_stage=stage) for i, n, stage in rows]

    def _runs(self, rest: str, *values: Any) -> list[SimpleNamespace]:
        fields = "run_uuid", "name", "status", "start_time", "end_time", "lifecycle_stage", "artifact_uri"
        rows = self._rows(f"SELECT experiment_id, {', '.join(fields)} FROM runs {rest}", *values)
        runs = {}
        for experiment, run_id, *others in rows:
            info = SimpleNamespace(run_id=run_id, experiment_id=str(experiment))
            info.run_name, info.status, info.start_time, info.end_time = others[:4]
            info.lifecycle_stage, info.artifact_uri = others[4:]
            data = SimpleNamespace(tags={}, params={}, metrics={})
            runs[run_id] = SimpleNamespace(info=info, data=data, inputs=SimpleNamespace(dataset_inputs=[]))
        of_these = f"({_marks(runs)})"
        for name in ("tags", "params"):
            for run_id, key, text in self._rows(
                f"SELECT run_uuid, key, value FROM {name} WHERE run_uuid IN {of_these}", *runs
            ):
                getattr(runs[run_id].data, name)[key] = text
        for run_id, key, value, is_nan in self._rows(
            f"SELECT run_uuid, key, value, is_nan FROM latest_metrics WHERE run_uuid IN {of_these}", *runs
        ):
            runs[run_id].data.metrics[key] = _value(value, is_nan)
        for run_id, digest, key, text in self._rows(
            f"SELECT destination_id, digest, input_tags.name, input_tags.value FROM inputs "
            f"JOIN datasets ON source_id = dataset_uuid JOIN input_tags USING (input_uuid) "
            f"WHERE destination_type = 'RUN' AND destination_id IN {of_these}",
            *runs,
        ):
            dataset, tag = SimpleNamespace(digest=digest), SimpleNamespace(key=key, value=text)
            runs[run_id].inputs.dataset_inputs.append(SimpleNamespace(dataset=dataset, tags=[tag]))
        return list(runs.values())

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query; each is one of its own, as MLflow's are."""
        with closing(sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True, timeout=20)) as connection:
            connection.execute("PRAGMA case_sensitive_like = true")
            return connection.execute(query, values).fetchall()


# MLflow's client where no ``SqliteReader`` can read the store.
RunReader: TypeAlias = Union["mlflow.MlflowClient", SqliteReader]


def _conditions(query: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the conditions of a filter in SQL, with the values in them.

    Raises:
        ValueError: A condition that is not one of text.
    """
    at = 0
    while at < len(query):
        if (match := _CONDITION.match(query, at)) is None:
            raise ValueError(f"cannot read the filter {query!r} from position {at}")
        kind, key, compare, single, double = match.groups()
        text = single if double is None else double
        at = match.end()
        if kind == "attributes" and key == "status":
            yield f"status {compare} ?", [text]
        else:
            # MLflow too looks for the name of a run among its tags.
            key = {"run_name": "mlflow.runName"}[key] if kind == "attributes" else key
            yield (
                f"EXISTS (SELECT 1 FROM tags WHERE tags.run_uuid = runs.run_uuid AND key = ? AND value {compare} ?)",
                [key, text],
            )


def _marks(values: Iterable[object]) -> str:
    return ", ".join("?" for _ in values)


def _value(value: float, is_nan: int) -> float:
    return float("nan") if is_nan else value
