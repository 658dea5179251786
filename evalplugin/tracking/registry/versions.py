"""Registered models and their versions, found by name, alias and tags."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from evalplugin.tracking.location import resolve_uri, sqlite_path

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion, RegisteredModel

__all__ = ["REGISTRY_VARIABLE", "alias_of", "find_model", "registry_uri", "tags_of", "version_with"]

REGISTRY_VARIABLE = "MLFLOW_REGISTRY_URI"


def registry_uri(uri: str) -> str:
    """Return the URI of the registry of a tracking store: its own, or that of MLFLOW_REGISTRY_URI."""
    own = os.environ.get(REGISTRY_VARIABLE, "").strip()
    return resolve_uri(own) if sqlite_path(own) else own.rstrip("/") or uri


def find_model(client: MlflowClient, name: str) -> RegisteredModel | None:
    """Return a registered model, or None where there is none of that name."""
    from mlflow.exceptions import MlflowException

    try:
        return client.get_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return None


def alias_of(model: RegisteredModel, alias: str) -> str | None:
    """Return the number of the version that has an alias, or None."""
    number = model.aliases.get(alias)
    return None if number is None else str(number)


def version_with(client: MlflowClient, model: RegisteredModel, alias: str) -> ModelVersion | None:
    """Return the version that has an alias, or None."""
    number = alias_of(model, alias)
    return None if number is None else client.get_model_version(model.name, number)


def tags_of(version: ModelVersion) -> dict[str, str]:
    """Return the tags of a version without their prefix."""
    return {key.removeprefix("evalplugin."): value for key, value in version.tags.items()}
