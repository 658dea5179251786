"""``Check``: a known defect of evaluations under a code, and the registry of all checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple, TypeVar

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


# What a check looks at: the data before anything is fitted, models that are fitted on a sample of it, or the results.
Kind = Literal["data", "models", "results"]
Find = TypeVar("Find", bound=Callable[..., Iterator[Found]])


@dataclass(frozen=True)
class Check:
    """A known defect of evaluations, and the function that looks for it."""

    kind: Kind
    code: str  # EV and three digits; never used again for something else
    title: str  # of the defect, in a few words
    rule: str  # when it is reported, with the reason of each threshold
    why: str  # it matters
    source: str  # publications that show why
    remedy: str
    # Given the config and its data on one split (``PreparedData``), or the ``SplitResults``.
    find: Callable[..., Iterator[Found]] = field(repr=False)

    @property
    def url(self) -> str:
        """The address of its page in the documentation."""
        return page_of(self.code)


CHECKS: dict[str, Check] = {}


def _declare(kind: Kind, code: str, **declared: str) -> Callable[[Find], Find]:
    """Return the decorator of a check of a kind, given its code and the texts of ``Check``."""

    def register(find: Find) -> Find:
        assert code not in CHECKS, f"{code} is registered twice"
        CHECKS[code] = Check(kind, code, find=find, **declared)
        return find

    return register


data_check = partial(_declare, "data")
model_check = partial(_declare, "models")
result_check = partial(_declare, "results")


def check_of(code: str) -> Check:
    """Return the check of a code.

    Raises:
        UnknownNameError: No check has it; the message has the nearest one.
    """
    if code not in CHECKS:
        raise UnknownNameError(f"unknown check {code!r}{did_you_mean(code, sorted(CHECKS))}")
    return CHECKS[code]
