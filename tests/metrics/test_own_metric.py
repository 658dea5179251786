"""A metric of the user's own, in one file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from evalplugin.errors import PluginError
from evalplugin.metrics import METRICS, OverallMetric, ScoringContext, UserMetric, evaluate, metric, parse
from evalplugin.metrics.contract import check_metric
from evalplugin.registry import load_plugin_file

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


@pytest.fixture(autouse=True)
def _registry_as_before() -> Iterator[None]:
    before = dict(METRICS._entries)
    yield
    METRICS._entries.clear()
    METRICS._entries.update(before)


def test_a_metric_in_one_file_is_used_by_name_and_keeps_the_contract(tmp_path: Path) -> None:
    file = tmp_path / "my_metric.py"
    file.write_text(FILE)
    load_plugin_file(file)
    assert evaluate("weighted_hits(weight=2)@2", lists=[[1, 2, 3]], truth=[{1, 3}]) == [2.0]
    assert parse("weighted_hits(weight=2.50)@2").name == "weighted_hits(weight=2.5)@2"
    check_metric("weighted_hits(weight=0.5)")


def test_dense_and_sparse_views_say_the_same() -> None:
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


def test_what_is_no_metric_is_refused() -> None:
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

    with pytest.raises(
        PluginError, match=r"Alone must subclass evalplugin\.metrics\.UserMetric or OverallMetric"
    ):
        metric("alone")(Alone)
    with pytest.raises(PluginError, match="Unfinished does not define start"):
        metric("unfinished")(Unfinished)
    with pytest.raises(PluginError, match=r"Silent does not state higher_is_better \(a ClassVar\)"):
        metric("silent")(Silent)
    with pytest.raises(
        PluginError, match=r"metric 'ndcg' is already registered by evalplugin\.metrics\.graded"
    ):
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
def test_the_contract_finds_a_metric_that_breaks_a_law(law: str, compute: object) -> None:
    @metric("broken")
    @dataclass(frozen=True)
    class Broken(Right):
        """Breaks a law."""

        def __call__(self, context: ScoringContext, k: int, /) -> np.ndarray:
            return compute(context, k)  # type: ignore[operator, no-any-return]

    with pytest.raises(AssertionError, match=law):
        check_metric("broken")


def test_the_contract_finds_a_metric_that_does_not_equal_itself() -> None:
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


def test_the_contract_finds_a_metric_that_writes_into_its_inputs() -> None:
    @metric("writer")
    @dataclass(frozen=True)
    class Writer(Right):
        """Writes where it must not."""

        def __call__(self, context: ScoringContext, _k: int, /) -> np.ndarray:
            context.item[0, 0] = 0
            return context.undefined_without_relevant(np.zeros(context.n_users))

    with pytest.raises(ValueError, match="read-only"):
        check_metric("writer")
