"""Loading of a model from MLflow, with what is known of it and what MLflow warns of."""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from evalplugin.base.errors import ModelError, TrackingError
from evalplugin.base.inputs import scheme_of
from evalplugin.base.text import shorten
from evalplugin.models.base import ListRequest
from evalplugin.tracking.connection import FAIL_FAST, store_exists, tracking_call
from evalplugin.tracking.location import resolve_uri
from evalplugin.tracking.read.uris import find_version, model_logged_as
from evalplugin.tracking.registry.versions import registry_uri, tags_of

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.pyfunc import PyFuncModel

__all__ = ["LoadedModel", "loaded_model", "local_folder"]

_MAX_NOTE = 400  # characters of what is warned of
# What MLflow tells those who log models.
_TO_AUTHORS = ("Any type hint is inferred as AnyType", "Add type hints to the `predict` method")


@dataclass(frozen=True)
class LoadedModel:
    """A model as MLflow loads it, and sentences on what it is."""

    pyfunc: PyFuncModel
    notes: tuple[str, ...]


def local_folder(uri: str, folder: Path) -> Path | None:
    """Return the folder that a path or a ``file:`` URI names, relative to ``folder``; None for any other URI."""
    scheme = scheme_of(uri)
    if scheme == "file":
        from urllib.request import url2pathname  # with the client of HTTP, which takes long to import

        return Path(url2pathname(urlsplit(uri).path))
    return folder / Path(uri).expanduser() if scheme is None else None


@contextmanager
def loaded_model(uri: str, request: ListRequest) -> Iterator[LoadedModel]:
    """Yield the model that a URI leads to; its files are downloaded, and gone afterwards.

    Raises:
        TrackingError: There is no such model, or it cannot be downloaded.
        ModelError: It cannot be loaded, for example as a package that it needs is not installed.
    """
    with tempfile.TemporaryDirectory(prefix="evalplugin-") as scratch:
        files, origin = local_folder(uri, request.folder), f"the model {uri}"
        if files is None:
            files, origin = _download(uri, resolve_uri(request.tracking_uri), scratch)
        said: list[str] = []
        with _listening(said):
            from mlflow.exceptions import MlflowException
            from mlflow.pyfunc import load_model

            try:
                pyfunc = load_model(str(files))
            except (ImportError, MlflowException) as error:
                missing = isinstance(error, ImportError) or isinstance(error.__cause__, ImportError)
                hint = "; install what it needs: its requirements.txt names it" if missing else ""
                raise ModelError(f"the model {uri} cannot be loaded here: {error}{hint}") from error
        made = (pyfunc.metadata.metadata or {}).get("fitted_on")  # of a model that a bake-off has registered
        origin += f", made from {made}" if made is not None else ""
        yield LoadedModel(
            pyfunc, (f"evaluated is {origin}", *(f"while it was loaded: {text}" for text in said))
        )


def _download(uri: str, store: str, folder: str) -> tuple[Path, str]:
    """Return the downloaded files of a model, and what it is in words."""
    with tracking_call(store, f"load {uri}", settings=FAIL_FAST):
        if not store_exists(store):
            raise TrackingError(f"there is no tracking store {store}")
        from mlflow import MlflowClient
        from mlflow.artifacts import download_artifacts

        client, rest = MlflowClient(store, registry_uri=registry_uri(store)), uri.partition(":")[2].strip("/")
        files, origin = uri, f"the model {uri}"
        if scheme_of(uri) == "models":
            files, origin = _files_of(client, uri, rest)
        elif scheme_of(uri) == "runs" and (found := model_logged_as(client, *rest.split("/", 1))) is not None:
            files = str(found.artifact_location)
        return Path(download_artifacts(artifact_uri=files, dst_path=folder, tracking_uri=store)), origin


def _files_of(client: MlflowClient, uri: str, rest: str) -> tuple[str, str]:
    """Return where the files of a URI of the registry are, and what it is in words."""
    found = find_version(client, uri)
    if found is None:
        return str(client.get_logged_model(rest).artifact_location), f"the model {uri}"
    tags = tags_of(found)
    origin = f"version {found.version} of {found.name}"
    if "bakeoff" in tags:
        origin += f", {tags.get('model', '?')} of the bake-off {tags['bakeoff']}"
    return str(client.get_model_version_download_uri(found.name, found.version)), origin


@contextmanager
def _listening(said: list[str]) -> Iterator[None]:
    """Collect what MLflow and the libraries of a model warn of, in one line each, in place of printing it."""

    def add(text: str) -> None:
        line = shorten(" ".join(text.split()), _MAX_NOTE)
        if line not in said and not any(words in line for words in _TO_AUTHORS):
            said.append(line)

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            add(record.getMessage())

    logger = logging.getLogger("mlflow")
    before, logger.handlers = logger.handlers, [Collector(logging.WARNING)]
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield
        for warning in warned:
            if issubclass(warning.category, UserWarning):  # others are for those who write libraries
                add(str(warning.message))
    finally:
        logger.handlers = before
