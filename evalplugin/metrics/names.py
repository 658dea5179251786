"""The grammar of metric names: ``name(param=value, ...)@k``. A metric's canonical name is its identity."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NoReturn, TypeAlias, cast, get_args

from evalplugin.base.arrays import Floats
from evalplugin.base.errors import ParameterError, Problem, did_you_mean
from evalplugin.base.text import shorten
from evalplugin.components.parameters import build, parameters_of
from evalplugin.components.registry import is_own
from evalplugin.metrics.base import CONVENTIONS_VERSION, METRICS, NAME, Metric, Need, UserMetric
from evalplugin.metrics.context import ScoringContext
from evalplugin.metrics.propensity import why_not_weighted

# The whole truth, or its items that the user has met in the train data before, or those that are new to the user.
TruthPart: TypeAlias = Literal["all", "repeat", "explore"]

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?(?![A-Za-z0-9_.])", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_MAX_K = 2**31 - 1
_MAX_DIGITS = 300  # of a number; Python reads thousands neither as int nor as float


@dataclass(frozen=True)
class MetricSpec:
    """A requested metric: the registered name, the metric with its parameters, the cutoff."""

    family: str
    metric: Metric
    k: int | None = None
    truth: TruthPart = "all"  # the part of each user's truth that counts

    @property
    def needs(self) -> tuple[Need, ...]:
        """Inputs beyond lists and truth."""
        if self.truth == "all" or "train" in self.metric.needs:
            return self.metric.needs
        return (*self.metric.needs, "train")

    @cached_property
    def name(self) -> str:
        """The canonical name: defaults left out, parameters in the order of the fields, shortest numbers."""
        given = []
        for field in dataclasses.fields(self.metric):  # type: ignore[arg-type]  # every registered metric is one
            value = getattr(self.metric, field.name)
            if field.init and value is not None and value != field.default:
                given.append(f"{field.name}={_text(value)}")
        if self.truth != "all":
            given.append(f"truth={self.truth}")
        parameters = f"({', '.join(given)})" if given else ""
        return f"{self.family}{parameters}{'' if self.k is None else f'@{self.k}'}"

    @property
    def definition(self) -> str:
        """Name and version: equal for metrics whose values can be compared."""
        return f"{self.name} {self.metric.version}"

    @property
    def is_own(self) -> bool:
        """Whether the metric is part of evalplugin, so that its declarations are trusted."""
        return is_own(type(self.metric).__module__)

    @property
    def direction(self) -> int:
        """1 where higher values are better, -1 where lower ones are, 0 where neither are."""
        up = self.metric.higher_is_better
        return 0 if up is None else 1 if up else -1

    @property
    def sources(self) -> tuple[MetricSpec, ...]:
        """The metrics whose values of all users it is derived from; none: it is computed block by block."""
        return self.metric.sources(self.k) if isinstance(self.metric, UserMetric) else ()

    @property
    def is_by_unit(self) -> bool:
        """Whether each value is that of a user; of a derived metric, only the mean over all users counts."""
        return not self.sources

    def at(self, k: int | None) -> MetricSpec:
        """Return the same metric at another cutoff; None is the whole list."""
        return dataclasses.replace(self, k=k)

    def of(self, context: ScoringContext, k: int) -> Floats:
        """Return the value of each user of a block: float64 (B,), NaN where undefined."""
        assert isinstance(self.metric, UserMetric)
        return self.metric(context if self.truth == "all" else context.parts[self.truth], k)


def parse(text: str) -> MetricSpec:
    """Parse the name of a metric.

    A canonical name parses to the same metric: ``parse(spec.name) == spec``.

    Raises:
        UnknownNameError: No metric has the name; the message has the nearest one.
        ParameterError: The text breaks the grammar, or the metric does not take a parameter or k.

    >>> from evalplugin.metrics import parse
    >>> parse("ndcg( gain = exp2 )@10").name
    'ndcg(gain=exp2)@10'
    >>> parse("rbp(p=0.80)").name
    'rbp'
    """
    if not isinstance(text, str):
        raise ParameterError([Problem((), f"a metric is named by text such as 'ndcg@10', not by {text!r}")])
    scanner = _Scanner(text)
    family = scanner.word("the name of a metric")
    params = scanner.parameters() if scanner.take("(") else {}
    k = scanner.cutoff() if scanner.take("@") else None
    scanner.end()

    cls = METRICS.entry(family).cls
    truth = _truth_part(scanner, cls, family, params)
    if "propensity" in params and all(p.name != "propensity" for p in parameters_of(cls)):
        scanner.fail(why_not_weighted(family))
    try:
        made = build(cls, params, owner=family) if params else _default(cls, family)
    except ParameterError as error:
        raise ParameterError([_with_text(text, problem) for problem in error.problems]) from None
    if k is not None and not cls.takes_k:
        scanner.fail(f"{family} takes no k; write {MetricSpec(family, made, truth=truth).name!r}")
    try:
        made.check_cutoff(k)
    except ValueError as error:
        scanner.fail(str(error))
    return MetricSpec(family, made, k, truth)


def with_companions(specs: Sequence[MetricSpec]) -> list[MetricSpec]:
    """Return requested metrics and, behind them, the companions that are not requested."""
    companions = {own.name: own for spec in specs for own in spec.metric.companions(spec.k)}
    requested = {spec.name for spec in specs}
    return [*specs, *(own for name, own in companions.items() if name not in requested)]


def _truth_part(scanner: _Scanner, cls: type[Metric], family: str, params: dict[str, object]) -> TruthPart:
    """Take the parameter ``truth``, which all metrics of truth have, from the parameters; return its value."""
    if "truth" not in params or any(own.name == "truth" for own in parameters_of(cls)):
        return "all"
    if cls.scope != "user" or cls.about != "truth":
        scanner.fail(f"{family} takes no truth: it is a metric of lists, whatever is held out")
    if "log" in cls.needs:
        scanner.fail(f"{family} takes no truth: it values whole decisions")
    value = params.pop("truth")
    if value not in (allowed := get_args(TruthPart)):
        near = did_you_mean(str(value), allowed, noun=None)
        scanner.fail(f"truth must be one of {', '.join(allowed)}, not {value!r}{near}")
    return cast(TruthPart, value)


def definitions_hash(specs: Iterable[MetricSpec]) -> str:
    """Return a hash of the metrics' definitions: names, versions, version of the conventions."""
    lines = sorted(spec.definition for spec in specs)
    return hashlib.sha256("\n".join([f"conventions {CONVENTIONS_VERSION}", *lines]).encode()).hexdigest()


def _default(cls: type[Metric], family: str) -> Metric:
    """Return a metric with default parameters, which need no check."""
    try:
        return cls()
    except (TypeError, ValueError):  # a parameter is missing: `build` has the better message
        return build(cls, {}, owner=family)


def _with_text(text: str, problem: Problem) -> Problem:
    parameter = "" if problem.at_key or not problem.path else f"{problem.path[0]}: "
    return Problem((), f"{text!r}: {parameter}{problem.message}")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e16 else repr(value)
    return str(value)


class _Scanner:
    """A left-to-right scanner of metric names; errors give the position."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def fail(self, message: str) -> NoReturn:
        raise ParameterError([Problem((), f"{self.text!r}: {message}")])

    def expected(self, wanted: str) -> NoReturn:
        self._skip_space()
        rest = self.text[self.position :]
        actual = f"{rest[0]!r} at position {self.position + 1}" if rest else "the end"
        self.fail(f"expected {wanted}, found {actual}")

    def take(self, symbol: str) -> bool:
        self._skip_space()
        if not self.text.startswith(symbol, self.position):
            return False
        self.position += len(symbol)
        return True

    def word(self, wanted: str) -> str:
        return self._match(NAME) or self.expected(wanted)

    def parameters(self) -> dict[str, object]:
        params: dict[str, object] = {}
        while not self.take(")"):
            name = self.word("a parameter as name=value" if params else "a parameter as name=value, or ')'")
            if name in params:
                self.fail(f"parameter {name!r} is given twice")
            if not self.take("="):
                self.expected(f"'=' and a value after {name!r}")
            params[name] = self.value(name)
            if not self.take(","):
                if not self.take(")"):
                    self._refuse_nesting(name)
                    self.expected("',' or ')'")
                break
        return params

    def value(self, name: str) -> object:
        number = self._match(_NUMBER)
        if number is not None:
            if len(number) > _MAX_DIGITS or not math.isfinite(float(number)):
                self.fail(f"{name}: {shorten(number, 40)} is too large a number")
            return int(number) if _WHOLE.fullmatch(number) else float(number)
        word = self._match(NAME)
        if word is None:
            self._refuse_nesting(name)
            self.expected(f"a word or a number as the value of {name!r}")
        return {"true": True, "false": False}.get(word, word)

    def cutoff(self) -> int:
        given = self.text[self.position :].strip()
        self.position = len(self.text)
        if not re.fullmatch(r"\d+", given, re.ASCII) or not 1 <= int(given[:11]) <= _MAX_K:
            self.fail(f"k must be a whole number from 1 to {_MAX_K}, not {given!r}")
        return int(given)

    def end(self) -> None:
        self._skip_space()
        if self.position < len(self.text):
            self.expected("'@' and k, or the end")

    def _refuse_nesting(self, name: str) -> None:
        symbol = self.text[self.position : self.position + 1]
        where = f"{symbol!r} at position {self.position + 1}"
        if symbol and symbol in "([{":
            self.fail(f"the value of {name!r} is one word or one number, not a call or a list: {where}")
        if symbol and symbol in "\"'":
            self.fail(f"the value of {name!r} must not be quoted: {where}")

    def _match(self, pattern: re.Pattern[str]) -> str | None:
        self._skip_space()
        match = pattern.match(self.text, self.position)
        if match is None:
            return None
        self.position = match.end()
        return match.group()

    def _skip_space(self) -> None:
        while self.text[self.position : self.position + 1].isspace():
            self.position += 1
