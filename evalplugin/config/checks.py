"""The checks of a config, part by part; all that is wrong is told at once."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from pydantic import TypeAdapter, ValidationError

from evalplugin.base.errors import EvalpluginError, ParameterError, Problem, did_you_mean
from evalplugin.base.parameters import as_mapping
from evalplugin.base.registry import Registry
from evalplugin.config.checked import ModelRecipe, Named
from evalplugin.config.document import Document, Place
from evalplugin.config.gate import Gate, Register
from evalplugin.config.gate_checks import Known, problems_of_gate
from evalplugin.config.schema import Config, DatasetSpec, InlineSpec, ModelSpec, SegmentSpec, SplitSpec
from evalplugin.config.sections import Compare
from evalplugin.data import LoadContext
from evalplugin.metrics import MetricSpec, parse
from evalplugin.models import MODELS
from evalplugin.segments import SEGMENTS, Segmenter

__all__ = ["Checks"]

T = TypeVar("T")
P = ParamSpec("P")


class Checks:
    """Collects what is wrong, so that all of it is told at once."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []
        self.malformed: set[str | int] = set()  # the top-level keys under which something is

    def stop_if_any(self) -> None:
        """Raise a ConfigError if anything is wrong so far."""
        if self.problems:
            raise self.document.error(self.problems)

    def parts(self, key: str, kind: type[T]) -> list[tuple[Place, T]]:
        """Return the well-formed values under a top-level key, one or a list of them, each with its place."""
        value = self.document.data.get(key)
        if value is None:
            return []
        several: list[tuple[Place, Any]] = [((key,), value)]
        if isinstance(value, list):
            several = [((key, i), item) for i, item in enumerate(value)]
        adapter = TypeAdapter(kind)
        found = []
        for place, item in several:
            try:
                found.append((place, adapter.validate_python(item)))
            except ValidationError:
                continue  # told already, by the check of the whole
        return found

    def add(self, path: Place, message: str) -> None:
        """Note that something is wrong at a place."""
        self.problems.append(Problem(path, message))

    def extend(self, problems: Iterable[Problem], path: Place) -> bool:
        """Note problems whose paths lead on from a place; return whether there are none."""
        found = [Problem((*path, *p.path), p.message, p.at_key) for p in problems]
        self.problems += found
        return not found

    def attempt(self, path: Place, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Return what work returns; None if it raises, which is noted at a place."""
        try:
            return work(*args, **kwargs)
        except ParameterError as error:
            self.extend(error.problems, path)
        except EvalpluginError as error:
            self.add(path, str(error))
        return None

    def component(self, registry: Registry[T], spec: InlineSpec, path: Place) -> T | None:
        """Return a component of a registry, made with its parameters; None if that cannot be done, which is noted."""
        if self.attempt(self._type_at(path), registry.entry, spec.type) is None:
            return None
        return self.attempt(path, registry.create, spec.type, spec.params)

    def segments(self, context: LoadContext) -> list[Named[Segmenter]]:
        """Return the segments, or those of every bake-off where none are named."""
        if "segments" not in self.document.data:
            default: list[SegmentSpec] = Config.model_fields["segments"].get_default()
            return [Named(one.name, one.type, SEGMENTS.create(one.type)) for one in default]
        found = []
        for path, one in self.parts("segments", SegmentSpec):
            segmenter = self.component(SEGMENTS, one, path)
            check: Callable[[LoadContext], list[Problem]] = getattr(segmenter, "check", lambda context: [])
            if segmenter is not None and self.extend(check(context), path):
                found.append(Named(one.name, one.type, segmenter))
        return found

    def expand(self, spec: ModelSpec, path: Place) -> list[ModelRecipe]:
        """Return the model, or one for each point of its grid."""
        if self.attempt(self._type_at(path), MODELS.entry, spec.type) is None:
            return []
        both = [key for key in spec.grid if _has(spec.params, key)]
        for key in both:
            self.add((*path, "grid", key), f"{key!r} stands under params and under grid; keep one")
        if both:
            return []
        before = len(self.problems)
        found = []
        for name, chosen in _points(spec):
            model = self._model(spec, name, chosen, path)
            if model is not None:
                found.append(model)
        # Many points of a grid share one mistake: tell it once.
        self.problems[before:] = dict.fromkeys(self.problems[before:])
        return found

    def _model(self, spec: ModelSpec, name: str, chosen: dict[str, Any], path: Place) -> ModelRecipe | None:
        params = json.loads(json.dumps(spec.params))
        for key, value in chosen.items():
            _put(params, key, value)
        try:
            model = MODELS.create(spec.type, params)
        except ParameterError as error:
            for problem in error.problems:
                key = ".".join(map(str, problem.path))
                grid = next(
                    (g for g in chosen if key == g or g.startswith(f"{key}.") or key.startswith(f"{g}.")),
                    None,
                )
                if grid is None:
                    self.extend([problem], (*path, "params"))
                elif problem.at_key:
                    self.problems.append(Problem((*path, "grid", grid), problem.message, at_key=True))
                else:
                    self.add((*path, "grid", grid, spec.grid[grid].index(chosen[grid])), problem.message)
            return None
        return ModelRecipe(name, spec.type, as_mapping(model))

    def metrics(self, n: int) -> list[MetricSpec]:
        """Return the metrics; none looks further than lists of ``n`` items reach."""
        found: dict[str, MetricSpec] = {}
        for path, text in self.parts("metrics", str):
            metric = self.attempt(path, parse, text)
            if metric is None:
                continue
            if metric.name in found:
                self.add(path, f"{text!r} is the metric {metric.name!r}, which the list has already")
            if metric.k is not None and metric.k > n:
                self.add(
                    path,
                    f"{text!r} looks at {metric.k} items, but lists are {n} long (recommend.n); lower k or raise n",
                )
            found[metric.name] = metric
        return list(found.values())

    def known(
        self, metrics: Sequence[MetricSpec], segments: Sequence[Named[Segmenter]], compare: Compare
    ) -> Known:
        """Return what there is to be named, whether or not what a name stands for could be made; no name stands twice.

        Where one of a kind is not well formed nothing is known of the kind: any name may be that one's.
        """
        return Known(
            models=self._names("model", "models", ModelSpec, lambda one: [name for name, _ in _points(one)]),
            metrics=[] if any(problem.path[:1] == ("metrics",) for problem in self.problems) else metrics,
            datasets=self._names("dataset", "datasets", DatasetSpec, lambda one: [one.name]),
            splits=self._names("split", "split", SplitSpec, lambda one: [one.name]),
            segments=(
                self._names("segment", "segments", SegmentSpec, lambda one: [one.name])
                if "segments" in self.document.data
                else [one.name for one in segments]
            ),
            baseline=compare.baseline,
            knows_champion=not self.malformed & {"compare", "register"},
        )

    def _names(self, noun: str, key: str, kind: type[T], names_of: Callable[[T], list[str]]) -> list[str]:
        """Return the names under a top-level key, after a check that none stands twice."""
        named = [(path, name) for path, one in self.parts(key, kind) for name in names_of(one)]
        self.unique(noun, named)
        return [] if key in self.malformed else [name for _, name in named]

    def primary(self, compare: Compare, metrics: Sequence[MetricSpec]) -> MetricSpec | None:
        """Return the metric that ranks the models: the one that is named, or else the first."""
        if compare.primary is None:
            return metrics[0] if metrics else None
        text, path = compare.primary, ("compare", "primary")
        asked = self.attempt(path, parse, text)
        names = [m.name for m in metrics]
        if asked is not None and names and asked.name not in names:
            hint = did_you_mean(asked.name, names, noun="metrics")
            self.add(path, f"{asked.name!r} is not in the list of metrics{hint}")
        return asked

    def baseline(self, compare: Compare, models: Sequence[str]) -> None:
        """Check that the baseline is one of the models."""
        if compare.baseline is not None and models and compare.baseline not in models:
            hint = did_you_mean(compare.baseline, models, noun="models")
            self.add(("compare", "baseline"), f"no model is named {compare.baseline!r}{hint}")

    def gate(self, known: Known) -> None:
        """Check what gate and register name, as far as these sections are well formed."""
        gate = next((one for _, one in self.parts("gate", Gate)), None)
        register = next((one for _, one in self.parts("register", Register)), None)
        # A gate that is not well formed is there all the same.
        if gate is not None or "gate" not in self.document.data:
            self.extend(problems_of_gate(gate, register, known), ())

    def unique(self, kind: str, named: Sequence[tuple[Place, str]]) -> None:
        """Check that no name stands twice."""
        seen: set[str] = set()
        for path, name in named:
            if name in seen:
                at = (*path, "name")
                where = at if at in self.document.values else path
                self.add(where, f"duplicate {kind} name {name!r}; give each a name of its own")
            seen.add(name)

    def _type_at(self, path: Place) -> Place:
        at = (*path, "type")
        return at if at in self.document.values else path


def _has(params: Mapping[str, Any], key: str) -> bool:
    value: Any = params
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return False
        value = value[part]
    return True


def _put(params: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key, such as ``sim_options.name``."""
    *outer, last = key.split(".")
    for part in outer:
        params = params.setdefault(part, {})
    params[last] = value


def _points(spec: ModelSpec) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the points of a model's grid, each with its name; of a model without one the model itself."""
    for point in itertools.product(*spec.grid.values()):
        chosen = dict(zip(spec.grid, point, strict=True))
        label = ", ".join(f"{key}={_word(value)}" for key, value in chosen.items())
        yield f"{spec.name}({label})" if chosen else spec.name, chosen


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
