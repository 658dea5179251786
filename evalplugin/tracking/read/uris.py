"""Versions of registered models, by alias, tags and URI; fingerprints of MLflow's URIs and others."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from evalplugin.base.errors import TrackingError
from evalplugin.base.fingerprint import fingerprint
from evalplugin.base.tracking_uri import store_kind
from evalplugin.files.uri_fingerprints import unknowable, uri_fingerprint
from evalplugin.files.uris import MLFLOW_SCHEMES, scheme_of
from evalplugin.tracking import mlflow
from evalplugin.tracking.connection import FAIL_FAST, attempt, check_stored_uri, existing_store
from evalplugin.tracking.location import resolve_uri

if TYPE_CHECKING:
    from mlflow.entities import FileInfo, LoggedModel
    from mlflow.entities.model_registry import ModelVersion, RegisteredModel

REGISTRY_VARIABLE = "MLFLOW_REGISTRY_URI"


def uri_version(uri: str, *, tracking_uri: str, own: Collection[str] = ()) -> str:
    """Return a text that changes with the content of a URI.

    Of ``models:/`` it is the version that an alias, a stage or ``latest`` leads to; of ``runs:/`` and
    ``mlflow-artifacts:/`` the names and sizes of files, as MLflow knows no more. Others: see ``uri_fingerprint``.

    ``own``: URIs that models of evalplugin read from ``tracking_uri``, the store of the bake-off; for others
    MLFLOW_TRACKING_URI wins, as it does for the code of a plugin that calls MLflow.

    Raises:
        DataError: It cannot be known.
    """
    if scheme_of(uri) not in MLFLOW_SCHEMES:
        return uri_fingerprint(uri)
    store = tracking_uri if uri in own else os.environ.get("MLFLOW_TRACKING_URI", "").strip() or tracking_uri
    try:
        return stored_version(uri, store)
    except TrackingError as error:
        raise unknowable(uri, error) from None


def stored_version(uri: str, store: str) -> str:
    """Return a text that changes with the content of one of MLflow's URIs in a store, as ``uri_version``.

    Raises:
        DataError: There is no such version.
        TrackingError: The store cannot be reached, or has nothing by that URI.
    """
    rest = uri.partition(":")[2].strip("/")
    with existing_store(store, f"look up {uri}", settings=FAIL_FAST) as client:
        match scheme_of(uri):
            case "models":
                version = find_version(client, uri)
                if version is None:  # a logged model, which never changes
                    return rest
                return f"version {version.version} of {version.creation_timestamp}"
            case "runs":
                run_id, _, path = rest.partition("/")
                # MLflow would look for the model in the store of the environment.
                if path and (logged := model_logged_as(client, run_id, path)) is not None:
                    return fingerprint([[logged.model_id]])
                info = client.get_run(run_id).info
                check_stored_uri(info.artifact_uri, store)
                ended = [run_id, info.end_time]
                files = _files(lambda folder: client.list_artifacts(run_id, folder or None), path)
                return fingerprint([ended, *files])
            case _:

                def fetch(folder: str) -> list[FileInfo]:
                    at = f"{uri.rstrip('/')}/{folder}".rstrip("/")
                    return mlflow.artifacts.list_artifacts(artifact_uri=at, tracking_uri=store) or []

                return fingerprint([*_files(fetch, "")])


def registry_uri(uri: str) -> str:
    """Return the URI of a tracking store's registry: MLFLOW_REGISTRY_URI, or else the store's own."""
    own = os.environ.get(REGISTRY_VARIABLE, "").strip()
    return resolve_uri(own) if store_kind(own) == "sqlite" else own.rstrip("/") or uri


def find_model(client: mlflow.MlflowClient, name: str) -> RegisteredModel | None:
    """Return the registered model of a name, or None."""
    return attempt("RESOURCE_DOES_NOT_EXIST", client.get_registered_model, name)


def version_with(client: mlflow.MlflowClient, model: RegisteredModel, alias: str) -> ModelVersion | None:
    """Return the version that has an alias, or None."""
    number = model.aliases.get(alias)
    return None if number is None else client.get_model_version(model.name, str(number))


def tags_of(version: ModelVersion) -> dict[str, str]:
    """Return the tags of a version without their prefix."""
    return {key.removeprefix("evalplugin."): value for key, value in version.tags.items()}


def find_version(client: mlflow.MlflowClient, uri: str) -> ModelVersion | None:
    """Return the version that a URI of the registry leads to; None for the id of a logged model, ``models:/m-...``.

    Raises:
        DataError: The model has no such version.
    """
    name, _, which = uri.partition(":")[2].strip("/").partition("/")
    if not which and "@" in name:
        name, _, alias = name.rpartition("@")
        return client.get_model_version_by_alias(name, alias)
    if not which:
        return None
    if which.isdigit():
        return client.get_model_version(name, which)
    versions = [v for v in client.search_model_versions(f"name = '{name}'") if v.name == name]
    if which != "latest":
        versions = [v for v in versions if str(v.current_stage).lower() == which.lower()]
    if not versions:
        raise unknowable(uri, f"the registered model {name!r} has no version {which!r}")
    return max(versions, key=lambda v: int(v.version))


def model_logged_as(client: mlflow.MlflowClient, run_id: str, path: str) -> LoggedModel | None:
    """Return the model that a run has logged under a name; None where the path leads to files of the run."""
    outputs = client.get_run(run_id).outputs
    for output in outputs.model_outputs if outputs is not None else ():
        model = client.get_logged_model(output.model_id)
        if model.name == path:
            return model
    return None


def _files(fetch: Callable[[str], list[FileInfo]], path: str) -> Iterator[list[object]]:
    """Yield path and size of each file below a path, in a fixed order."""
    for file in sorted(fetch(path), key=lambda file: str(file.path)):
        if file.is_dir:
            yield from _files(fetch, file.path)
        else:
            yield [file.path, file.file_size]
