"""Checks of a config's parts, whose problems are collected and reported together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

from pydantic import TypeAdapter, ValidationError

from evalplugin.base.errors import (
    EvalpluginError,
    KeyPath,
    MissingPackageError,
    ParameterError,
    Problem,
    UnknownNameError,
    did_you_mean,
)
from evalplugin.components.parameters import as_mapping, problems_of
from evalplugin.components.registry import Component, Registry, call_component
from evalplugin.config.checked import ModelRecipe, Named, NamedDataset, inputs_at
from evalplugin.config.components import (
    ComponentSpec,
    DatasetSpec,
    FilterSpec,
    InlineSpec,
    has_parameter,
    is_related,
    params_at,
)
from evalplugin.config.document import Document
from evalplugin.config.schema import CheckedSection, Config, EnvironmentInput, ModelSpec, SegmentSpec
from evalplugin.config.sections import Compare, Recommend
from evalplugin.data import DATASETS, FILTERS, LoadContext
from evalplugin.files.inputs import ENV
from evalplugin.metrics import MetricSpec, parse
from evalplugin.metrics.names import with_companions
from evalplugin.models import MODELS

T = TypeVar("T")
C = TypeVar("C", bound=Component)
P = ParamSpec("P")


class Checks:
    """The checks of one config; each adds to the problems, so that all of them are reported together."""

    def __init__(self, document: Document, context: LoadContext, schema: type[Config]) -> None:
        self.document = document
        self.lacks_plugins = False  # whether one cannot be loaded
        self.context = context
        self.schema = schema
        self.data: Any = {"segments": Config.model_fields["segments"].get_default(), **document.data}
        self.problems: list[Problem] = []
        self.spec: Config | None = None  # None: malformed
        try:
            self.spec = schema.model_validate(document.data)
        except ValidationError as error:
            self.problems += problems_of(error, schema, document.data, noun="key")
        # Top-level keys with problems of form.
        self.malformed = {problem.path[0] for problem in self.problems if problem.path}
        # The names that the config defines, by kind. None of a malformed kind: any name may be one of its own.
        self.names: dict[str, list[str]] = {}

    def stop_if_any(self) -> None:
        """Raise a ConfigError if there are problems so far."""
        if self.problems:
            raise self.document.error(self.problems)

    def parts(self, key: str, kind: type[T]) -> list[tuple[KeyPath, T]]:
        """Return the well-formed values under a top-level key, one or a list of them, each with its path."""
        value = self.data.get(key)
        if value is None:
            return []
        several = isinstance(value, list | tuple)
        paths: list[KeyPath] = [(key, number) for number in range(len(value))] if several else [(key,)]
        if self.spec is not None:
            valid = getattr(self.spec, self._field(key))
            return list(zip(paths, valid if isinstance(valid, list) else [valid], strict=True))
        adapter, parts = TypeAdapter(kind), []
        for path, item in zip(paths, value if several else [value], strict=True):
            with suppress(ValidationError):  # reported already, by the check of the whole
                parts.append((path, adapter.validate_python(item)))
        return parts

    def _field(self, key: str) -> str:
        """Return the name of the field of a top-level key."""
        return next(name for name, field in self.schema.model_fields.items() if key in (field.alias, name))

    def section(self, key: str, kind: type[T]) -> T | None:
        """Return a section; None if it is left out or malformed."""
        return next((section for _, section in self.parts(key, kind)), None)

    def add(self, path: KeyPath, message: str, at_key: bool = False) -> None:
        """Add a problem."""
        self.problems.append(Problem(path, message, at_key))

    def extend(self, problems: Iterable[Problem], path: KeyPath) -> bool:
        """Add problems whose paths are relative to another path; return whether there were no problems."""
        before = len(self.problems)
        self.problems += [Problem((*path, *p.path), p.message, p.at_key) for p in problems]
        return len(self.problems) == before

    def attempt(self, path: KeyPath, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Return the result of a function; None if it raises, which adds problems."""
        try:
            return work(*args, **kwargs)
        except ParameterError as error:
            self.extend(error.problems, path)
        except EvalpluginError as error:
            # An unknown name may be one of a plugin that cannot be loaded, which is reported.
            if not (self.lacks_plugins and isinstance(error, UnknownNameError)):
                self.add(path, str(error))
        return None

    def components(
        self, key: str, kind: type[FilterSpec | InlineSpec], registry: Registry[C]
    ) -> list[Named[C]]:
        """Return the components under a top-level key that can be made and whose own checks find nothing."""
        components = (self.component(path, spec, registry) for path, spec in self.parts(key, kind))
        return [component for component in components if component is not None]

    def component(
        self, path: KeyPath, spec: FilterSpec | InlineSpec, registry: Registry[C]
    ) -> Named[C] | None:
        """Return a component if it can be made and its own check finds nothing."""
        if self.attempt(self.nested(path, "type"), registry.entry, spec.type) is None:
            return None
        before = len(self.problems)
        component = self.attempt(path, registry.create, spec.type, spec.params)
        if component is None:
            self._check_others(registry, spec, path, before)
            return None
        if not self._passes(component, path):
            return None
        return Named(spec.name, spec.type, component)

    def _passes(self, component: Component, path: KeyPath) -> bool:
        """Return whether a component's own check finds nothing; problems are relative to a path."""
        problems = self.attempt(path, _own_problems, component, self.context)
        return problems is not None and self.extend(problems, path)

    def _check_others(
        self, registry: Registry[C], spec: FilterSpec | InlineSpec | ModelSpec, path: KeyPath, before: int
    ) -> None:
        """Check the parameters without problems after the first ``before``, such as a missing file, by themselves."""
        wrong = {problem.path[: len(path) + 1] for problem in self.problems[before:]}
        others = {key: value for key, value in spec.params.items() if (*path, key) not in wrong}
        with suppress(EvalpluginError):
            problems = _own_problems(registry.create(spec.type, others), self.context)
            self.extend([p for p in problems if p.path and p.path[0] in others], path)

    def datasets(self) -> list[NamedDataset]:
        """Return the datasets that can be made, each with its filters."""
        datasets = []
        for path, spec in self.parts("datasets", DatasetSpec):
            filters = [
                self.component((*path, "filters", number), each, FILTERS)
                for number, each in enumerate(spec.filters)
            ]
            dataset = self.component(path, spec, DATASETS)
            if dataset is not None:
                steps = tuple((each.type, each.component) for each in filters if each is not None)
                datasets.append(NamedDataset(dataset.name, dataset.type, dataset.component, steps))
        return datasets

    def expand(self, spec: ModelSpec, path: KeyPath) -> list[ModelRecipe]:
        """Return the model, with its search space if it is tuned; or one for each point of its grid."""
        if self.attempt(self.nested(path, "type"), MODELS.entry, spec.type) is None:
            return []
        both = [key for key in spec.grid if has_parameter(spec.params, key)]
        for key in both:
            self.add((*path, "grid", key), f"{key!r} stands under params and under grid; keep one")
        if both:
            return []
        before = len(self.problems)
        inputs = tuple(self._inputs(spec, path))
        models = []
        for name, chosen in spec.points():
            params = self._params(spec, chosen, path)
            if params is not None:
                models.append(ModelRecipe(name, spec.type, params, inputs, spec.tune or None, path))
        # Points of a grid share mistakes: each is reported once.
        self.problems[before:] = dict.fromkeys(self.problems[before:])
        return models

    def _inputs(self, spec: ModelSpec, path: KeyPath) -> Iterator[str]:
        """Yield the declared inputs of a model; check that files exist, and that URIs are of a known kind."""
        for number, declared in enumerate(spec.inputs):
            if isinstance(declared, EnvironmentInput):
                yield f"{ENV}{declared.env}"
                continue
            self.attempt((*path, "inputs", number), inputs_at, declared, self.context.base)
            yield declared

    def _params(self, spec: ModelSpec, chosen: dict[str, Any], path: KeyPath) -> dict[str, Any] | None:
        """Return every parameter of a model at one point of its grid; None if some are wrong."""
        before = len(self.problems)
        try:
            model = MODELS.create(spec.type, params_at(spec.params, chosen))
        except MissingPackageError as error:
            self.add(self.nested(path, "type"), str(error))
            return None
        except ParameterError as error:
            for problem in error.problems:
                key = ".".join(map(str, problem.path))
                grid = next((varied for varied in chosen if is_related(key, varied)), None)
                if grid is None or has_parameter(spec.params, key):
                    self.extend([problem], (*path, "params"))
                elif problem.at_key:
                    self.add((*path, "grid", grid), problem.message, at_key=True)
                else:
                    self.add((*path, "grid", grid, spec.grid[grid].index(chosen[grid])), problem.message)
            self._check_others(MODELS, spec, (*path, "params"), before)
            return None
        return as_mapping(model) if self._passes(model, (*path, "params")) else None

    def metrics(self, recommend: Recommend, datasets: Sequence[NamedDataset]) -> list[MetricSpec]:
        """Return the metrics and their companions.

        Checks that no cutoff is above the length of the lists, and that there are a pool and a log of decisions.
        """
        n = recommend.n
        no_log = next((dataset for dataset in datasets if not dataset.component.is_log), None)
        lacks_pool = recommend.candidates != "given" and "recommend" not in self.malformed
        metrics: dict[str, MetricSpec] = {}
        for path, text in self.parts("metrics", str):
            metric = self.attempt(path, parse, text)
            if metric is None:
                continue
            if metric.name in metrics:
                self.add(path, f"{text!r} is the metric {metric.name!r}, which the list has already")
            if metric.k is not None and metric.k > n:
                self.add(
                    path,
                    f"{text!r} looks at {metric.k} items, but lists are {n} long (recommend.n); lower k or raise n",
                )
            if "pool" in metric.needs and lacks_pool:
                self.add(
                    path,
                    f"{text!r} needs a pool: set recommend: {{candidates: given, path: FILE}}, a table of the items to "
                    f"rank for each user",
                )
            if "log" in metric.needs and no_log is not None:
                self.add(
                    path,
                    f"{text!r} needs a log of what was shown, a dataset of type impressions, and {no_log.name} is "
                    f"of type {no_log.type}",
                )
            metrics[metric.name] = metric
        return with_companions(list(metrics.values()))

    def candidates(self, recommend: Recommend, datasets: Sequence[NamedDataset]) -> Recommend:
        """Return the section with the candidates that hold where they are left out; check the tables of a pool."""
        if "recommend" in self.malformed:
            return recommend
        self._check_pools(recommend)
        events = [dataset for dataset in datasets if dataset.has_events]
        if not events:
            return recommend
        if "candidates" not in recommend.model_fields_set:
            if len(events) < len(datasets):
                other = next(dataset.name for dataset in datasets if not dataset.has_events)
                self.add(
                    ("datasets",),
                    f"{events[0].name} is a log of events (duplicates: keep), whose users may meet an item again, and "
                    f"{other} is not: say recommend.candidates (all, for example), or use a config for each",
                )
            return recommend.model_copy(update={"candidates": "all"})
        if recommend.candidates == "given" and recommend.seen is None:
            return recommend.model_copy(update={"seen": "keep"})
        if recommend.candidates == "unseen":
            self.add(
                ("recommend", "candidates"),
                f"unseen leaves out what a user has met before, and {events[0].name} is a log of events (duplicates: "
                f"keep), whose users meet items again: such truth could never be listed; set candidates: all, or leave "
                f"it out",
            )
        return recommend

    def _check_pools(self, recommend: Recommend) -> None:
        """Report tables of given candidates that are not there, or lack a column."""
        problems: list[Problem] = []
        for key, pool in recommend.pools().items():
            for _, dataset in self.parts("datasets", DatasetSpec):
                for _, split in self.parts("split", InlineSpec):
                    of_pool = pool.check(self.context.base, dataset.name, split.name)
                    problems += [replace(p, path=(key,)) if p.path == ("path",) else p for p in of_pool]
        self.extend(dict.fromkeys(problems), ("recommend",))

    def collect_names(self, metrics: Sequence[MetricSpec]) -> None:
        """Set ``names``, those of components with problems too; check for duplicates."""
        has_problems = any(problem.path[:1] == ("metrics",) for problem in self.problems)
        self.names = {
            "model": self._names("model", "models", ModelSpec),
            "metric": [] if has_problems else [metric.name for metric in metrics],
            "dataset": self._names("dataset", "datasets", DatasetSpec),
            "split": self._names("split", "split", InlineSpec),
            "segment": self._names("segment", "segments", SegmentSpec),
        }

    def _names(self, noun: str, key: str, kind: type[ComponentSpec]) -> list[str]:
        """Return the names under a top-level key, and check that none is a duplicate."""
        names: list[str] = []
        for path, spec in self.parts(key, kind):
            own = [name for name, _ in spec.points()] if isinstance(spec, ModelSpec) else [spec.name]
            for name in own:
                if name in names:
                    message = f"duplicate {noun} name {name!r}; give each a name of its own"
                    self.add(self.nested(path, "name"), message)
                names.append(name)
        return [] if key in self.malformed else names

    def check_name(self, kind: str, name: str, path: KeyPath, *, at_key: bool = False) -> None:
        """Check that a name is defined.

        Args:
            kind: The kind, a key of ``names``.
            name: The name that the config uses.
            path: The place of the name.
            at_key: Whether the name is a key and not a value.
        """
        names = self.names[kind]
        if names and name not in names:
            near = did_you_mean(name, names, noun=f"{kind}s")
            self.add(path, f"no {kind} is named {name!r}{near}", at_key)

    def is_listed(self, metric: MetricSpec, path: KeyPath, *, at_key: bool = False) -> bool:
        """Return whether a metric is in the list of metrics, or the list is unknown; see ``check_name``."""
        names = self.names["metric"]
        if not names or metric.name in names:
            return True
        near = did_you_mean(metric.name, names, noun="metrics")
        self.add(path, f"{metric.name!r} is not in the list of metrics{near}", at_key)
        return False

    def primary(self, compare: Compare, metrics: Sequence[MetricSpec]) -> MetricSpec | None:
        """Return the metric that ranks the models, named or the first; check that the baseline is one of the models."""
        if compare.baseline is not None:
            self.check_name("model", compare.baseline, ("compare", "baseline"))
        if compare.primary is None:
            return metrics[0] if self.names["metric"] else None
        path = ("compare", "primary")
        primary = self.attempt(path, parse, compare.primary)
        if primary is not None:
            self.is_listed(primary, path)
        return primary

    def nested(self, path: KeyPath, key: str) -> KeyPath:
        """Return the path of a key of a mapping, or of the mapping where the key is left out."""
        nested = (*path, key)
        return nested if nested in self.document.values else path


# A feature's check of its section, given the models and the metric that ranks them. It adds problems, and returns what
# replaces the section; None: nothing.
SectionCheck = Callable[[Checks, Sequence[ModelRecipe], MetricSpec | None], CheckedSection | None]


def _own_problems(component: Component, context: LoadContext) -> list[Problem]:
    """Return the problems that a component's own check finds; their paths name parameters."""
    return call_component("check", component.check, context)
