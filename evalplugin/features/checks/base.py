"""``Check``: a known defect of evaluations under a code, and the registry of all checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from evalplugin.base.errors import UnknownNameError, did_you_mean
from evalplugin.comparison.comparison import Comparison
from evalplugin.config import CheckedConfig
from evalplugin.execution.results import ModelResult, page_of
from evalplugin.execution.runner import PreparedData

__all__ = [
    "CHECKS", "Check", "DataFinder", "Found", "ResultFinder", "Results", "check_of", "data_check", "model_check",
    "result_check",
]  # fmt: skip

Find = TypeVar("Find")


class Found(NamedTuple):
    """What a check has found: one line with numbers, and the model that it is about, if it is one."""

    text: str
    model: str | None = None


@dataclass(frozen=True)
class Results:
    """The results of all models on one dataset under one split, and their comparison."""

    config: CheckedConfig
    data: PreparedData
    models: Sequence[ModelResult]  # in config order, failed ones included
    comparison: Comparison

    @property
    def done(self) -> list[ModelResult]:
        """The models that did not fail."""
        return [model for model in self.models if model.per_user is not None]


DataFinder = Callable[[CheckedConfig, PreparedData], Iterator[Found]]
ResultFinder = Callable[[Results], Iterator[Found]]


@dataclass(frozen=True)
class Check(Generic[Find]):
    """A known defect of evaluations, and the function that looks for it."""

    code: str  # EV and three digits; never used again for something else
    title: str  # of the defect, in a few words
    rule: str  # when it is found, with the reason of each threshold
    why: str  # it matters
    source: str  # where that is shown
    remedy: str  # what to do
    find: Find = field(repr=False)

    @property
    def url(self) -> str:
        """The address of its page in the documentation."""
        return page_of(self.code)


_checks: dict[str, Check[DataFinder] | Check[ResultFinder]] = {}
CHECKS: Mapping[str, Check[DataFinder] | Check[ResultFinder]] = MappingProxyType(_checks)
of_data: dict[str, Check[DataFinder]] = {}
of_models: dict[str, Check[DataFinder]] = {}
of_results: dict[str, Check[ResultFinder]] = {}


def data_check(code: str, **declared: str) -> Callable[[DataFinder], DataFinder]:
    """Return a decorator that registers a function as a check of the data; ``declared`` are the texts of ``Check``."""

    def register(find: DataFinder) -> DataFinder:
        of_data[code] = _registered(Check(code, find=find, **declared))
        return find

    return register


def model_check(code: str, **declared: str) -> Callable[[DataFinder], DataFinder]:
    """Return a decorator that registers a function as a check of the data that fits models; as ``data_check``."""

    def register(find: DataFinder) -> DataFinder:
        of_models[code] = _registered(Check(code, find=find, **declared))
        return find

    return register


def result_check(code: str, **declared: str) -> Callable[[ResultFinder], ResultFinder]:
    """Return a decorator that registers a function as a check of the results; ``declared`` as in ``data_check``."""

    def register(find: ResultFinder) -> ResultFinder:
        of_results[code] = _registered(Check(code, find=find, **declared))
        return find

    return register


AnyCheck = TypeVar("AnyCheck", Check[DataFinder], Check[ResultFinder])


def _registered(check: AnyCheck) -> AnyCheck:
    assert check.code not in _checks, f"{check.code} is registered twice"
    _checks[check.code] = check
    return check


def check_of(code: str) -> Check[DataFinder] | Check[ResultFinder]:
    """Return the check of a code.

    Raises:
        UnknownNameError: No check has it; the message has the nearest one.
    """
    if code not in CHECKS:
        raise UnknownNameError(f"unknown check {code!r}{did_you_mean(code, sorted(CHECKS))}")
    return CHECKS[code]
