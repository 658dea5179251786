"""Agreement with LensKit, which ``nox -s lenskit`` installs in an environment of its own.

LensKit adds exposures up as float32, so that six digits agree. Its overlap of lists is to the depth k, ours to the end
of the longer list, which is the same where both have k items.
"""

from __future__ import annotations

import numpy as np
import pytest
from samples import overlap_values

from evalplugin.metrics import evaluate
from evalplugin.report.overlap import PERSISTENCE

pytest.importorskip("lenskit", reason="needs LensKit: nox -s lenskit")


@pytest.mark.parametrize("k", [1, 3, 10])
def test_lenskit_agrees_on_the_gini_index_of_exposure(k: int) -> None:
    from lenskit.data import ItemList, ItemListCollection
    from lenskit.metrics import RunAnalysis
    from lenskit.metrics.ranking import ExposureGini
    from lenskit.metrics.ranking._weighting import LogRankWeight

    rng = np.random.default_rng(k)
    lists = [rng.permutation(30)[: rng.integers(1, 12)].tolist() for _ in range(50)]
    analysis = RunAnalysis()
    analysis.add_metric(ExposureGini(k, items=30, weight=LogRankWeight(offset=1)))
    output, test = ({u: ItemList(item_ids=row, ordered=True) for u, row in enumerate(lists)} for _ in "ab")
    theirs = analysis.measure(
        *(ItemListCollection.from_dict(each, key="user_id") for each in (output, test))
    ).global_metrics()
    (ours,) = evaluate(f"exposure_gini@{k}", lists=lists, truth=[{}] * 50, catalogue=range(30))
    assert ours == pytest.approx(theirs.iloc[0], rel=1e-6)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_lenskit_agrees_on_rank_biased_overlap(k: int) -> None:
    from lenskit.data import ItemList
    from lenskit.metrics import GeometricRankWeight, rank_biased_overlap

    rng = np.random.default_rng(k)
    ours = [np.array([rng.permutation(15)[:k] for _ in range(50)], dtype=np.int32) for _ in "ab"]
    pairs = zip(*([ItemList(item_ids=row, ordered=True) for row in rows] for rows in ours), strict=True)
    theirs = [rank_biased_overlap(a, b, weight=GeometricRankWeight(PERSISTENCE), n=k) for a, b in pairs]
    rbo, _ = overlap_values(*ours)
    np.testing.assert_allclose(rbo, theirs, rtol=1e-12)
    assert 0 < rbo.mean() < 1
