"""``Check``: a known defect of evaluations under a code, and the registry of all checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from evalplugin.base.errors import UnknownNameError, did_you_mean
from evalplugin.base.text import page_of
from evalplugin.comparison.comparison import Comparison
from evalplugin.config import CheckedConfig
from evalplugin.execution.results import ModelResult
from evalplugin.execution.runner import PreparedData


class Found(NamedTuple):
    """A defect in one line with numbers, and the model that has it, if a single one has."""

    text: str
    model: str | None = None


@dataclass(frozen=True)
class SplitResults:
    """The results of all models on one dataset under one split, and their comparison."""

    config: CheckedConfig
    data: PreparedData
    models: Sequence[ModelResult]  # in config order, failed ones included
    comparison: Comparison
    promoted: bool = False  # whether a gate has promoted a model

    @property
    def done(self) -> list[ModelResult]:
        """The models that did not fail."""
        return [model for model in self.models if model.per_user is not None]


DataFinder = Callable[["CheckedConfig", "PreparedData"], Iterator[Found]]
ResultFinder = Callable[[SplitResults], Iterator[Found]]
Find = TypeVar("Find", DataFinder, ResultFinder)


@dataclass(frozen=True)
class Check(Generic[Find]):
    """A known defect of evaluations, and the function that looks for it."""

    code: str  # EV and three digits; never used again for something else
    title: str  # of the defect, in a few words
    rule: str  # when it is reported, with the reason of each threshold
    why: str  # it matters
    source: str  # publications that show why
    remedy: str
    find: Find = field(repr=False)

    @property
    def url(self) -> str:
        """The address of its page in the documentation."""
        return page_of(self.code)


CHECKS: dict[str, Check[DataFinder] | Check[ResultFinder]] = {}
of_data: dict[str, Check[DataFinder]] = {}
of_models: dict[str, Check[DataFinder]] = {}
of_results: dict[str, Check[ResultFinder]] = {}


def _declaring(checks: dict[str, Check[Find]]) -> Callable[..., Callable[[Find], Find]]:
    """Return the decorator of a kind of check, which takes the code and the texts of ``Check``."""

    def declare(code: str, **declared: str) -> Callable[[Find], Find]:
        def register(find: Find) -> Find:
            assert code not in CHECKS, f"{code} is registered twice"
            CHECKS[code] = checks[code] = Check(code, find=find, **declared)
            return find

        return register

    return declare


data_check = _declaring(of_data)
model_check = _declaring(of_models)  # of the data, by models that are fitted on a sample of it
result_check = _declaring(of_results)


def check_of(code: str) -> Check[DataFinder] | Check[ResultFinder]:
    """Return the check of a code.

    Raises:
        UnknownNameError: No check has it; the message has the nearest one.
    """
    if code not in CHECKS:
        raise UnknownNameError(f"unknown check {code!r}{did_you_mean(code, sorted(CHECKS))}")
    return CHECKS[code]
