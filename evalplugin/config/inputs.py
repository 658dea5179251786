"""The inputs that models of a config name, by their parameters or under ``inputs``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evalplugin.base.errors import DataError, did_you_mean
from evalplugin.config.checked import ModelRecipe
from evalplugin.data.files import find_files
from evalplugin.files.inputs import ENV, inputs_named_in
from evalplugin.files.stores import is_known_to_fsspec, store_of
from evalplugin.files.uris import COMMAND, URI_SCHEMES, scheme_of
from evalplugin.models import MODELS


def inputs_at(text: str, folder: Path) -> list[str]:
    """Return the names of the inputs that an entry under ``inputs`` declares; paths are relative to ``folder``.

    Raises:
        DataError: There is no such file or folder, or the URI is of an unknown kind.
    """
    if text.startswith(ENV):
        return [text]
    scheme = scheme_of(text)
    if scheme is not None and scheme not in URI_SCHEMES:
        if scheme == COMMAND or not is_known_to_fsspec(scheme):
            near = did_you_mean(scheme, URI_SCHEMES, noun="allowed")
            raise DataError(f"{text}: {scheme!r} is not a kind of URI whose changes can be seen{near}")
        store_of(text)  # which raises an error where it cannot be opened
        return [text]
    inputs = list(inputs_named_in(text, [folder]))
    if not inputs:
        if scheme is None and (folder / Path(text).expanduser()).is_dir():
            raise DataError(
                f"{text} holds the working directory or your home; name a folder inside, or its files"
            )
        find_files(folder, text)  # which raises: nothing matches
    return inputs


def stored_uris(model: ModelRecipe) -> Mapping[str, str]:
    """Return the MLflow URIs that a model reads from the bake-off's tracking store, by parameter."""
    uris: Mapping[str, str] = getattr(MODELS.create(model.type, model.params), "uris", {})
    return uris


def inputs_of_model(model: ModelRecipe, folder: Path) -> Iterator[str]:
    """Yield the names of the inputs that a model's parameters name, and of those that it or its config declares."""
    yield from inputs_named_in(model.params, [folder, Path.cwd()])
    yield from stored_uris(model).values()
    yield from declared_inputs(model, folder)


def declared_inputs(model: ModelRecipe, folder: Path) -> Iterator[str]:
    """Yield the names of the inputs that a model's config declares under ``inputs``, or the model itself.

    Raises:
        DataError: There is no such file or folder, or the URI is of an unknown kind.
    """
    for text in model.inputs:
        yield from inputs_at(text, folder)
    if hasattr(MODELS.entry(model.type).cls, "own_inputs"):
        component: Any = MODELS.create(model.type, model.params)
        yield from component.own_inputs(folder)
