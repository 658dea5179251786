"""The validated, fully resolved config."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import yaml

from evalplugin.base.errors import ConfigError, DataError, KeyPath, did_you_mean
from evalplugin.base.fingerprint import fingerprint
from evalplugin.components.parameters import as_mapping
from evalplugin.components.registry import call_component
from evalplugin.config.document import Document
from evalplugin.config.schema import CheckedSection, Config, Effect
from evalplugin.config.spaces import Space
from evalplugin.data import DatasetLoader, Filter, Interactions, LoadContext, Splitter, filtered
from evalplugin.data.files import find_files
from evalplugin.files.inputs import ENV, inputs_named_in
from evalplugin.files.stores import is_known_to_fsspec, store_of
from evalplugin.files.uris import COMMAND, URI_SCHEMES, scheme_of
from evalplugin.metrics import MetricSpec
from evalplugin.models import MODELS
from evalplugin.segments import Segmenter

T = TypeVar("T")


@dataclass(frozen=True)
class Named(Generic[T]):
    """A component under its name in the config."""

    name: str
    type: str
    component: T

    @property
    def params(self) -> dict[str, Any]:
        """Every parameter."""
        return as_mapping(self.component)

    def as_mapping(self) -> dict[str, Any]:
        """Return the component as a config names it, every parameter included."""
        return {"name": self.name, "type": self.type, **self.params}


@dataclass(frozen=True)
class NamedDataset(Named[DatasetLoader]):
    """A dataset under its name in the config, with the filters of its interactions."""

    filters: tuple[tuple[str, Filter], ...] = ()  # each with its type

    @property
    def has_events(self) -> bool:
        """Whether it is a log of events, in which a user may meet an item again and again."""
        return self.component.duplicates == "keep"

    @property
    def params(self) -> dict[str, Any]:
        """Every parameter, and the filters if there are any."""
        filters = [{"type": type, **as_mapping(step)} for type, step in self.filters]
        return super().params | ({"filters": filters} if filters else {})

    def load(self, context: LoadContext) -> Interactions:
        """Return the interactions that pass the filters.

        Raises:
            DataError: The data is missing or breaks a rule, or a filter leaves nothing.
        """
        data = call_component(f"dataset {self.name}", self.component.load, context)
        try:
            return filtered(data, self.filters)
        except DataError as error:
            raise DataError(f"dataset {self.name}: {error}") from None


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


@dataclass(frozen=True)
class ModelRecipe:
    """A model, or one point of a model's grid: all that is needed to make it in any process."""

    name: str
    type: str
    params: Mapping[str, Any]  # every parameter, defaults included
    inputs: tuple[str, ...] = ()  # declared: files, folders, patterns, URIs, and env:NAME
    # The search space of each tuned parameter, under dotted names; None: the model is not tuned.
    space: Mapping[str, Space] | None = None
    path: KeyPath = field(default=(), compare=False)  # in the config; none for a champion from MLflow
    origin: str = field(default="", compare=False)  # where such a champion was found, for messages

    def as_mapping(self) -> dict[str, Any]:
        """Return the model as a config names it, every parameter included."""
        recipe: dict[str, Any] = {"name": self.name, "type": self.type, "params": dict(self.params)}
        if self.space:
            recipe["tune"] = {key: space.as_mapping() for key, space in self.space.items()}
        if self.inputs:
            recipe["inputs"] = [
                {"env": name.removeprefix(ENV)} if name.startswith(ENV) else name for name in self.inputs
            ]
        return recipe

    @property
    def stored_uris(self) -> Mapping[str, str]:
        """The MLflow URIs that the model reads from the bake-off's tracking store, by parameter."""
        return MODELS.create(self.type, self.params).uris

    def declared_inputs(self, folder: Path) -> Iterator[str]:
        """Yield the names of the inputs that the config declares under ``inputs``, or the model itself.

        Raises:
            DataError: There is no such file or folder, or the URI is of an unknown kind.
        """
        for text in self.inputs:
            yield from inputs_at(text, folder)
        yield from MODELS.create(self.type, self.params).own_inputs(folder)

    def all_inputs(self, folder: Path) -> Iterator[str]:
        """Yield the names of the inputs that the parameters name, and of the ``declared_inputs``."""
        yield from inputs_named_in(self.params, [folder, Path.cwd()])
        yield from self.stored_uris.values()
        yield from self.declared_inputs(folder)


@dataclass(frozen=True)
class CheckedConfig:
    """A config whose names are known, whose parameters are checked and whose grids are expanded."""

    spec: Config = field(repr=False)
    document: Document = field(repr=False)  # for messages: where each value comes from
    folder: Path  # the base of relative paths
    datasets: tuple[NamedDataset, ...]
    splits: tuple[Named[Splitter], ...]
    models: tuple[ModelRecipe, ...]
    metrics: tuple[MetricSpec, ...]
    primary: MetricSpec
    segments: tuple[Named[Segmenter], ...]
    engine: Named[Any] | None = None  # where tasks run; None: on this machine
    # Of features, by key: what their checks have made of sections.
    checked: Mapping[str, CheckedSection] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The file, as the user wrote it; ``python`` for a mapping."""
        return self.document.name

    @property
    def plugins(self) -> tuple[Path, ...]:
        """The plugin files."""
        return tuple(self.folder / path for path in self.spec.plugins)

    def section(self, key: str) -> Any:
        """Return the checked section of a feature; None where it is left out, or where there is no such feature."""
        if key in self.checked:
            return self.checked[key]
        spec = self.spec
        return next((getattr(spec, section.field) for section in spec.SECTIONS if section.key == key), None)

    @property
    def needed_segments(self) -> set[str]:
        """The names of segments that are shown even where all users are in one group, for sections of features."""
        given = ((section, self.section(section.key)) for section in self.spec.SECTIONS)
        return {name for section, value in given if value is not None for name in section.segments(value)}

    def model_names(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names of some models, in the order of the config; the name of a grid means all its points.

        Raises:
            ConfigError: No model has such a name.
        """
        grids = {model.name: self.spec.models[int(model.path[1])].name for model in self.models}
        allowed = list(dict.fromkeys([*grids, *grids.values()]))
        unknown = [
            f"{self.name}: only: no model is named {name!r}{did_you_mean(name, allowed, noun='models')}"
            for name in dict.fromkeys(names)
            if name not in allowed
        ]
        if unknown:
            raise ConfigError(unknown)
        return tuple(name for name, grid in grids.items() if name in names or grid in names)

    def with_models(self, names: Sequence[str]) -> tuple[CheckedConfig, list[str]]:
        """Return the config of a part of its models, and notes on what it cannot do without the others.

        Sections that hold only for all models of a config are left out.
        """
        models = tuple(model for model in self.models if model.name in names)
        if models == self.models:
            return self, []
        notes: list[str] = []
        changes: dict[str, Any] = {}
        baseline = self.spec.compare.baseline
        if baseline is not None and baseline not in names:
            changes["compare"] = self.spec.compare.model_copy(update={"baseline": None})
            notes.append(f"the baseline {baseline} is not run: no model is compared with it")
        for section in self.spec.SECTIONS:
            if section.of_all_models is not None and self.section(section.key) is not None:
                changes[section.field] = None
                notes += [section.of_all_models] if section.of_all_models else []
        return replace(self, models=models, spec=self.spec.model_copy(update=changes)), notes

    @property
    def resolved(self) -> dict[str, Any]:
        """The config as plain values, with every default filled in and every grid expanded."""
        checked: dict[str, Any] = {
            "datasets": [dataset.as_mapping() for dataset in self.datasets],
            "split": [split.as_mapping() for split in self.splits],
            "metrics": [metric.name for metric in self.metrics],
            "models": [model.as_mapping() for model in self.models],
            "segments": [segment.as_mapping() for segment in self.segments],
            "compare": {"baseline": self.spec.compare.baseline, "primary": self.primary.name},
            "engine": None if self.engine is None else {"type": self.engine.type, **self.engine.params},
            "seeds": self.spec.seeds if self.spec.seeds > 1 else None,  # hashes of before it existed stay
        }
        checked |= {key: section.as_mapping() for key, section in self.checked.items()}
        sections = self.spec.model_dump(by_alias=True) | checked
        return {name: section for name, section in sections.items() if section is not None}

    @property
    def resolved_yaml(self) -> str:
        """``resolved`` as YAML text."""
        return yaml.safe_dump(self.resolved, sort_keys=False, allow_unicode=True)

    def deciding(self, *effects: Effect) -> dict[str, Any]:
        """Return the resolved sections that have one of the effects, in the order of the effects."""
        resolved = self.resolved
        return {name: resolved[name] for name in self.spec.sections(*effects) if name in resolved}

    @property
    def hash(self) -> str:
        """A hash of all sections that can change a score, which tracking and segments cannot."""
        return fingerprint(self.deciding("scores"))
