"""Exact sums over clusters: the same for any division into parts that divides no cluster."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalplugin.metrics.clusters import Alike, ClusterMoments
from evalplugin.metrics.distribution import Distribution

SCORES = st.sampled_from([0.0, 1.0, 0.1, 1 / 3, 1e-300, 1e200, -0.0, 0.5])
CLUSTERS = st.lists(st.lists(SCORES, min_size=1, max_size=5), min_size=1, max_size=12)


def moments(clusters: list[list[float]]) -> ClusterMoments:
    codes = np.repeat(np.arange(len(clusters)), [len(cluster) for cluster in clusters])
    return ClusterMoments.of(np.array([value for cluster in clusters for value in cluster]), codes)


def test_sums_are_kept_by_the_size_of_clusters() -> None:
    ours = moments([[0.5], [0.25, 0.5], [1.0, 1.0], [0.25]])
    unit = 2**1074
    assert ours.clusters == 4
    assert [(size, s.clusters) for size, s in ours.sums.items()] == [(1, 2), (2, 2)]
    assert [s.units / unit for s in ours.sums.values()] == [0.5 + 0.25, 0.75 + 2.0]
    assert [s.squares / unit**2 for s in ours.sums.values()] == [0.25 + 0.0625, 0.5625 + 4.0]
    assert ours.values.mean == (0.5 + 0.75 + 2.0 + 0.25) / 6


def test_clusters_that_have_an_extreme_value_only_are_counted() -> None:
    ours = moments([[0.0, 0.0], [0.0, 0.5], [1.0], [0.0]])
    assert ours.all_lowest == Alike(0.0, clusters=2, values=3)
    assert ours.all_highest == Alike(1.0, clusters=1, values=1)
    mixed = moments([[0.0, 1.0], [0.0, 0.5]])
    assert (mixed.all_lowest, mixed.all_highest) == (Alike(0.0), Alike(1.0))


@given(CLUSTERS, st.data())
def test_parts_merge_to_the_moments_of_all_clusters(clusters: list[list[float]], data: st.DataObject) -> None:
    whole = moments(clusters)
    order = data.draw(st.permutations(range(len(clusters))))
    cut = data.draw(st.integers(0, len(clusters)))
    parts = [[clusters[i] for i in order[:cut]], [clusters[i] for i in order[cut:]]]
    merged = sum((moments(part) for part in parts), ClusterMoments())
    assert merged == whole
    assert list(merged.sums) == sorted(whole.sums)
    assert pickle.loads(pickle.dumps(merged)) == whole


def test_a_distribution_keeps_the_clusters_of_its_defined_values() -> None:
    values, clusters = np.array([0.5, np.nan, 1.0, 0.0, np.nan]), np.array([7, 7, 7, 3, 2])
    ours = Distribution.of(values, clusters=clusters)
    assert ours.clusters == moments([[0.5, 1.0], [0.0]])
    parts = [
        Distribution.of(values[:3], clusters=clusters[:3]),
        Distribution.of(values[3:], clusters=clusters[3:]),
    ]
    assert Distribution.merge(parts).clusters == ours.clusters
    assert Distribution.of(values).clusters is None


def test_parts_with_clusters_and_without_do_not_merge() -> None:
    values = np.array([0.5, 1.0])
    with pytest.raises(ValueError, match="not those of others"):
        Distribution.merge([Distribution.of(values), Distribution.of(values, clusters=np.array([0, 0]))])
