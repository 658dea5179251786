"""The writer: opens an experiment, starts and ends its runs, and logs items into them without credentials."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from evalplugin.base.errors import TrackingError
from evalplugin.base.secrets import redact, redact_message, redact_texts, redact_values, redact_yaml
from evalplugin.tracking import mlflow
from evalplugin.tracking.connection import attempt
from evalplugin.tracking.location import artifact_location
from evalplugin.tracking.names import DATA_FILE, DATA_TAG, IN_FILE, MAX_TAG, shorten_value
from evalplugin.tracking.read.logged import LoggedRun
from evalplugin.tracking.read.runs import search_runs
from evalplugin.tracking.write.items import Artifact, Dataset, Datum, Item, Metric, Param, Tag
from evalplugin.tracking.write.provenance import is_gone

_UPLOADS = 8  # files at a time
_KIND = {"mlflow.experimentKind": "custom_model_development"}


def open_experiment(client: mlflow.MlflowClient, uri: str, name: str) -> str:
    """Return the id of the named experiment, created if it is missing, and marked as one of models."""
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        location = artifact_location(uri, name)
        made = attempt("RESOURCE_ALREADY_EXISTS", client.create_experiment, name, location, tags=_KIND)
        # None: another process was faster.
        return str(made) if made is not None else open_experiment(client, uri, name)
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


def close_dead_runs(client: mlflow.MlflowClient, experiment_id: str) -> None:
    """End as KILLED the runs of an experiment that are RUNNING though the process that made them here is gone."""
    for run in search_runs(client, [experiment_id], "attributes.status = 'RUNNING'"):
        if is_gone(run.tag):
            client.set_terminated(run.id, "KILLED")


@dataclass
class RunWriter:
    """Writes the runs of one experiment."""

    client: mlflow.MlflowClient
    experiment_id: str
    open_runs: set[str] = field(default_factory=set)  # ids of the runs to end
    new_runs: dict[str, mlflow.entities.Run] = field(default_factory=dict)  # by id; in their first state
    _started: dict[str, int] = field(default_factory=dict)  # run id -> milliseconds since 1970
    _data: dict[str, dict[str, Any]] = field(default_factory=dict)  # run id -> what programs read

    def start(self, name: str, items: Iterable[Tag | Datum]) -> str:
        """Return the id of a new RUNNING run."""
        safe = [*map(without_credentials, items)]
        data = {item.key: item.value for item in safe if isinstance(item, Datum)}
        texts = {item.key: shorten_value(item.value) for item in safe if isinstance(item, Tag)}
        texts[DATA_TAG], _ = packed(data)
        run = self.client.create_run(self.experiment_id, tags=texts, run_name=name)
        self.open_runs.add(run.info.run_id)
        self._data[run.info.run_id] = data
        self.new_runs[run.info.run_id] = run
        return self.attach(run)

    def attach(self, run: mlflow.entities.Run) -> str:
        """Return the id of an existing run, to log into."""
        self._started[run.info.run_id] = run.info.start_time
        return str(run.info.run_id)

    def log(self, run_id: str, items: Iterable[Item], folder: Path | None = None) -> None:
        """Log items into a run, without credentials.

        ``folder``: of the files, which stay there; None: a temporary folder.
        """
        items = list(items)
        with self.uploading({run_id: items}, folder):
            self.log_values(run_id, items)

    def log_values(self, run_id: str, items: Iterable[Item]) -> None:
        """Log the items into a run that are no files, without credentials."""
        # A fixed time for each run: a repeated value is then equal, and stored once.
        at = self._started.get(run_id, 0)
        metrics, params, tags, datasets, data = [], [], [], [], {}
        values = (item for item in items if not isinstance(item, Artifact))
        for item in map(without_credentials, values):
            match item:
                case Metric():
                    model = () if item.of is None else item.of
                    metrics.append(mlflow.entities.Metric(item.key, item.value, at, item.step, *model))
                case Param():
                    params.append(mlflow.entities.Param(item.key, item.text))
                case Tag():
                    tags.append(mlflow.entities.RunTag(item.key, shorten_value(item.value)))
                case Datum():
                    data[item.key] = item.value
                case Dataset():
                    datasets.append(_dataset_input(item))
        if data:
            tags.append(mlflow.entities.RunTag(DATA_TAG, self._data_text(run_id, data)))
        if metrics or params or tags:
            # The client sends as many at a time as MLflow allows.
            self.client.log_batch(run_id, metrics=metrics, params=params, tags=tags)
        if datasets:
            self.client.log_inputs(run_id, datasets)

    def _data_text(self, run_id: str, data: Mapping[str, Any]) -> str:
        """Return the text of a run's tag for programs, with further values; what is too long for it is uploaded."""
        if run_id not in self._data:
            self._data[run_id] = LoggedRun(self.client, self.client.get_run(run_id)).data
        self._data[run_id] |= data
        text, left = packed(self._data[run_id])
        if left:
            with self.uploading({run_id: [Artifact(DATA_FILE, json.dumps(left).encode())]}):
                pass
        return text

    @contextmanager
    def uploading(self, items: Mapping[str, Iterable[Item]], folder: Path | None = None) -> Iterator[None]:
        """Write and upload the files among the items of runs, by their ids, while other values are logged inside.

        At the end, all files are uploaded, or the first error is raised.
        """

        def upload(run_id: str, artifact: Artifact, root: Path, first: Future[None] | None) -> None:
            files = write_artifact(artifact, root)
            if first is not None:
                first.result()
            for file in files:
                inside = file.parent.relative_to(root).as_posix()
                self.client.log_artifact(run_id, str(file), None if inside == "." else inside)

        with ExitStack() as stack:
            # On Ctrl-C, threads may still write there.
            folder_of_all = TemporaryDirectory(prefix="evalplugin-", ignore_cleanup_errors=True)
            scratch = Path(stack.enter_context(folder_of_all))
            pool = ThreadPoolExecutor(_UPLOADS)
            # On Ctrl-C, an upload that hangs is not waited for.
            stack.callback(pool.shutdown, wait=False, cancel_futures=True)
            uploads: list[Future[None]] = []
            for run_id, of_run in items.items():
                root = folder or scratch / run_id
                for artifact in (item for item in of_run if isinstance(item, Artifact)):
                    # After the first one, MLflow knows the place of files, and has a client of their storage.
                    first = uploads[0] if uploads else None
                    uploads.append(pool.submit(upload, run_id, artifact, root, first))
            yield
            for each in uploads:
                each.result()

    def end(self, run_id: str, status: str) -> None:
        """End a run as FINISHED, FAILED or KILLED."""
        self.client.set_terminated(run_id, status)
        self.open_runs.discard(run_id)


def without_credentials(item: Item) -> Item:
    """Return an item that is no file, with ``***`` instead of every credential."""
    match item:
        case Param():
            return safe_param(item)
        case Tag():
            return item._replace(value=redact(item.value))
        case Datum():
            return item._replace(value=redact_texts(item.value))
        case Dataset():
            return item._replace(source=redact_values(item.source))
    return item


def packed(data: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the values for programs as the text of a tag, and those that are too long for it, the longest first."""
    kept, left = dict(data), {}
    while len(text := json.dumps(kept, ensure_ascii=False)) > MAX_TAG:
        longest = max(kept.keys() - {IN_FILE}, key=lambda key: len(json.dumps(kept[key], ensure_ascii=False)))
        left[longest] = kept.pop(longest)
        kept[IN_FILE] = ",".join(left)
    return text, left


def safe_param(param: Param) -> Param:
    """Return a parameter with ``***`` instead of every credential."""
    return param._replace(value=redact_values({param.key: param.value})[param.key])


def write_artifact(artifact: Artifact, folder: Path) -> list[Path]:
    """Write an artifact below a folder and return its files; text has ``***`` instead of every credential."""
    target = folder / artifact.path
    target.parent.mkdir(parents=True, exist_ok=True)
    match artifact.content:
        case str(text):
            # Surrogates replace bytes that are not text; a traceback with them must still be logged.
            safe = redact_text(artifact.path, text)
            target.write_text(safe, encoding="utf-8", errors="backslashreplace", newline="\n")
        case bytes(content):
            target.write_bytes(content)
        case write:
            write(target)
    return sorted(target.iterdir()) if target.is_dir() else [target]


def redact_text(path: str, text: str) -> str:
    """Return the text of a file with ``***`` instead of every credential, in the file's format."""
    match PurePosixPath(path).suffix:
        case ".yaml":
            return redact_yaml(text)
        case ".json":
            return json.dumps(redact_values(json.loads(text)), indent=2, ensure_ascii=False)
        case ".html":  # titles of items may look like assignments to a password
            return redact_message(text)
    return redact(text)


def _dataset_input(dataset: Dataset) -> Any:
    source = json.dumps(dataset.source, default=str)
    return mlflow.entities.DatasetInput(
        mlflow.entities.Dataset(
            dataset.name, dataset.digest, "evalplugin", source, dataset.schema, dataset.profile
        ),
        [mlflow.entities.InputTag("mlflow.data.context", dataset.context)],
    )
