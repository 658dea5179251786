"""A metric of the user's own, in one file."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import pytest
from pydantic import Field

import evalplugin
from evalplugin.base.errors import ParameterError, PluginError
from evalplugin.components.registry import load_plugin_file
from evalplugin.metrics import METRICS, OverallMetric, ScoringContext, UserMetric, evaluate, metric, parse
from evalplugin.testing import check_metric

FILE = '''
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evalplugin.metrics import UserMetric, metric


@metric("weighted_hits")
@dataclass(frozen=True)
class WeightedHits(UserMetric):
    """Hits in the top k, each times a weight."""

    higher_is_better: ClassVar = True
    bounds: ClassVar = (0.0, float("inf"))
    weight: float = 1.0

    def __call__(self, context, k):
        hits = (context.relevant & context.listed)[:, :k].sum(axis=1) * self.weight
        return np.where(context.n_relevant > 0, hits, np.nan)
'''


def test_a_metric_in_one_file_is_used_by_name_and_keeps_the_contract(tmp_path: Path) -> None:
    file = tmp_path / "my_metric.py"
    file.write_text(FILE)
    load_plugin_file(file)
    assert evaluate("weighted_hits(weight=2)@2", lists=[[1, 2, 3]], truth=[{1, 3}]) == [2.0]
    assert parse("weighted_hits(weight=2.50)@2").name == "weighted_hits(weight=2.5)@2"
    check_metric("weighted_hits(weight=0.5)")


def test_an_infinite_value_of_a_metric_is_an_error() -> None:
    @metric("endless", higher_is_better=True, bounds=(0, float("inf")))
    def endless(context: ScoringContext, k: int) -> np.ndarray:
        """Infinite for users with a relevant item. Undefined without one."""
        return np.where(context.n_relevant > 0, np.inf, np.nan)

    lists = pd.DataFrame({"user": [1, 1, 2], "item": [1, 2, 1], "rank": [1, 2, 1]})
    truth = pd.DataFrame({"user": [1, 1, 2], "item": [1, 2, 1]})
    with pytest.raises(PluginError, match=r"metric endless@2 is infinite for 2 users"):
        evalplugin.score(lists, truth, metrics=["endless@2"])


def test_dense_and_sparse_views_of_the_context_agree() -> None:
    seen: list[ScoringContext] = []

    @metric("watch")
    @dataclass(frozen=True)
    class Watch(UserMetric):
        """Keeps what it is given."""

        higher_is_better = None
        bounds = (0.0, 0.0)

        def __call__(self, context: ScoringContext, _k: int, /) -> np.ndarray:
            seen.append(context)
            return np.zeros(context.n_users)

    evaluate("watch", lists=[["a", "b", "c"], ["c"]], truth=[{"a": 5.0, "c": 2.0}, {"b": 4.0}], threshold=3)
    (context,) = seen
    assert context.gain.tolist() == [[5, 0, 2], [0, 0, 0]]
    assert context.relevant.tolist() == [[True, False, False], [False, False, False]]
    assert context.listed.tolist() == [[True, True, True], [True, False, False]]
    assert context.n_listed.tolist() == [3, 1]
    assert context.n_truth.tolist() == [2, 1]
    assert context.n_relevant.tolist() == [1, 1]
    assert (context.n_users, context.n, context.n_items) == (2, 3, 3)


@dataclass(frozen=True)
class Right(UserMetric):
    """Zero."""

    higher_is_better = True
    bounds = (0.0, 1.0)

    def __call__(self, context: ScoringContext, _k: int, /) -> np.ndarray:
        return context.undefined_without_relevant(np.zeros(context.n_users))


def test_metric_decorator_refuses_invalid_classes() -> None:
    @dataclass(frozen=True)
    class Alone:
        pass

    @dataclass(frozen=True)
    class Unfinished(OverallMetric):
        higher_is_better = True
        bounds = (0.0, 1.0)

    @dataclass(frozen=True)
    class Silent(UserMetric):
        def __call__(self, context: ScoringContext, _k: int, /) -> np.ndarray:
            return np.zeros(context.n_users)

    class NoDataclass(UserMetric):
        pass

    with pytest.raises(PluginError, match=r"must subclass evalplugin\.metrics\.UserMetric or OverallMetric"):
        metric("alone")(Alone)
    with pytest.raises(PluginError, match="Unfinished does not define start"):
        metric("unfinished")(Unfinished)
    with pytest.raises(PluginError, match=r"Silent does not state higher_is_better \(a ClassVar\)"):
        metric("silent")(Silent)
    with pytest.raises(PluginError, match=r"'ndcg' is already registered by evalplugin\.metrics\.gain"):
        metric("ndcg")(Right)
    with pytest.raises(PluginError, match=r"NoDataclass must be a dataclass"):
        metric("none")(NoDataclass)
    with pytest.raises(PluginError, match="metric 'my metric': a name is a letter followed by letters"):
        metric("my metric")


@pytest.mark.parametrize(
    ("law", "compute"),
    [
        ("lies outside the bounds 0.0 to 1.0", lambda c, k: c.undefined_without_relevant(c.n_hits(k) + 1.0)),
        ("a user without truth must be undefined", lambda c, k: c.n_hits(k) / k),
        (
            "who is undefined must depend on the truth alone",
            lambda c, k: np.where((c.n_relevant > 0) & (c.n_listed > 3), 0.5, np.nan),
        ),
        (
            "relabelling must change nothing",
            lambda c, _: c.undefined_without_relevant((c.item[:, 0] + 1.0) / (c.n_items + 1)),
        ),
        (
            "what lies below k must change nothing",
            lambda c, _: c.undefined_without_relevant(c.relevant.sum(axis=1) / c.n),
        ),
        (
            "the size of a block must change nothing",
            lambda c, _: c.undefined_without_relevant(np.full(c.n_users, c.n_users / 60)),
        ),
        ("must return float64", lambda c, k: c.n_hits(k)),
    ],
)
def test_check_metric_finds_broken_laws(law: str, compute: object) -> None:
    @metric("broken")
    @dataclass(frozen=True)
    class Broken(Right):
        """Breaks a law."""

        def __call__(self, context: ScoringContext, k: int, /) -> np.ndarray:
            return compute(context, k)

    with pytest.raises(AssertionError, match=law):
        check_metric("broken")


def test_check_metric_finds_name_that_does_not_round_trip() -> None:
    @metric("unequal")
    @dataclass(frozen=True, eq=False)
    class Unequal(UserMetric):
        """Compared by identity."""

        higher_is_better = True
        bounds = (0.0, 1.0)

        def __call__(self, context: ScoringContext, _k: int, /) -> np.ndarray:
            return np.zeros(context.n_users)

    with pytest.raises(AssertionError, match="unequal: the name read back means another metric"):
        check_metric("unequal")


def test_check_metric_finds_changed_inputs() -> None:
    @metric("writer")
    @dataclass(frozen=True)
    class Writer(Right):
        """Writes where it must not."""

        def __call__(self, context: ScoringContext, _k: int, /) -> np.ndarray:
            context.item[0, 0] = 0
            return context.undefined_without_relevant(np.zeros(context.n_users))

    with pytest.raises(ValueError, match="read-only"):
        check_metric("writer")


@pytest.mark.parametrize(
    ("law", "merge"),
    [
        ("the merged states of parts must give the value of all", lambda self, a, b: np.maximum(a, b)),
        ("merging must change neither state", lambda self, a, b: np.add(a, b, out=a)),
    ],
)
def test_check_metric_finds_wrong_merges(law: str, merge: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(parse("gini").metric), "merge", merge)
    with pytest.raises(AssertionError, match=rf"^gini: {law}"):
        check_metric("gini")


FUNCTION = '''
from __future__ import annotations

from typing import TYPE_CHECKING

import evalplugin

if TYPE_CHECKING:
    from evalplugin.metrics import ScoringContext
    from numpy.typing import NDArray


@evalplugin.metric("share_of_first", higher_is_better=True, bounds=(0, 1))
def share_of_first(context: ScoringContext, k: int, *, weight: float = 1.0) -> NDArray:
    """Whether the first item is relevant, times a weight."""
    return context.undefined_without_relevant(context.n_hits(1) * weight)
'''


def test_a_plain_function_in_one_file_is_a_metric_with_parameters(tmp_path: Path) -> None:
    file = tmp_path / "my_function.py"
    file.write_text(FUNCTION)
    load_plugin_file(file)
    assert evaluate("share_of_first(weight=0.5)@2", lists=[[1, 2], [2, 1]], truth=[{1}, {1}]) == [0.5, 0]
    spec = parse("share_of_first(weight=1.0)@2")
    assert spec.name == "share_of_first@2"
    assert (spec.metric.higher_is_better, spec.metric.bounds, spec.metric.scope) == (True, (0, 1), "user")
    assert METRICS.entry("share_of_first").summary == "Whether the first item is relevant, times a weight."
    assert METRICS.entry("share_of_first").origin == str(file)
    half = parse("share_of_first(weight=0.5)@2")
    assert pickle.loads(pickle.dumps(half)) == half
    with pytest.raises(ParameterError, match=r"parameter 'wieght' of share_of_first; did you mean 'weight'"):
        parse("share_of_first(wieght=2)")
    check_metric("share_of_first(weight=0.5)")


def test_a_function_of_the_context_alone_takes_no_k() -> None:
    @evalplugin.metric("listed", higher_is_better=None, bounds=(0, 100), about="lists", version=3)
    def listed(context: ScoringContext, *, at_least: Annotated[int, Field(ge=1)]) -> np.ndarray:
        """How many items the list holds."""
        return np.where(context.n_listed >= at_least, context.n_listed, np.nan)

    assert callable(listed)
    assert evaluate("listed(at_least=1)", lists=[[1, 2]], truth=[{}]) == [2]
    made = parse("listed(at_least=1)").metric
    assert (made.takes_k, made.version) == (False, 3)
    with pytest.raises(ParameterError, match=r"listed takes no k; write 'listed\(at_least=2\)'"):
        parse("listed(at_least=2)@5")
    with pytest.raises(ParameterError, match="must be greater than or equal to 1"):
        parse("listed(at_least=0)")
    check_metric("listed(at_least=2)")


def any_number(*values: float) -> np.ndarray:
    return np.array(values)


def no_context() -> np.ndarray:
    return np.array([])


def three(context: ScoringContext, k: int, weight: float) -> np.ndarray:
    return np.array([])


def unannotated(context: ScoringContext, k: int, *, weight=1) -> np.ndarray:
    return np.array([])


@pytest.mark.parametrize(
    ("function", "stated", "message"),
    [
        (any_number, {}, r"any_number: its parameters must be named, not \*values"),
        (no_context, {}, r"no_context must take \(context, k\) or \(context\), and its own parameters"),
        (three, {}, r"it takes \(context, k, weight\)"),
        (unannotated, {}, "unannotated: parameter weight needs an annotation, such as weight: float"),
        (Right, {}, "the class Right states higher_is_better, bounds itself"),
        (three, {"beter": True}, "'beter' is not a property of a metric; allowed: higher_is_better"),
    ],
)
def test_metric_decorator_refuses_invalid_functions(function, stated, message):
    with pytest.raises(PluginError, match=message):
        metric("wrong", **{"higher_is_better": True, "bounds": (0, 1), **stated})(function)
    assert "wrong" not in METRICS.names()


def test_function_metric_must_declare_direction_and_bounds() -> None:
    with pytest.raises(PluginError, match=r"'wrong': a function needs higher_is_better: @metric\('wrong'"):
        metric("wrong")(three)


@pytest.mark.parametrize(
    ("law", "compute"),
    [
        ("a user without a list must be undefined", lambda c, k: c.n_listed * 1.0),
        (
            "what is true must change nothing",
            lambda c, k: np.where(c.n_listed > 0, c.n_hits(k) * 1.0, np.nan),
        ),
        (
            "who is undefined must depend on the length of the list alone",
            lambda c, _: np.where(c.item[:, 0] > 3, 0.5, np.nan),
        ),
    ],
)
def test_check_metric_finds_broken_laws_of_list_metrics(law: str, compute: object) -> None:
    metric("broken", higher_is_better=True, bounds=(0, 100), about="lists")(compute)
    with pytest.raises(AssertionError, match=law):
        check_metric("broken")


def test_check_metric_finds_metric_undefined_for_constant_predictions() -> None:
    @metric("spread", higher_is_better=True, bounds=(0, 100), needs=("predictions",))
    def spread(context: ScoringContext) -> np.ndarray:
        differs = np.bincount(context.truth_row, context.predictions != 1, minlength=context.n_users)
        return np.where(differs > 0, 0.5, np.nan)

    with pytest.raises(AssertionError, match="who is undefined must depend on the truth alone"):
        check_metric("spread")
