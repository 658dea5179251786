from __future__ import annotations

import importlib.util
import inspect
import re
import tracemalloc
from dataclasses import fields
from pathlib import Path

import implicit.als
import implicit.bpr
import implicit.lmf
import implicit.nearest_neighbours
import numpy as np
import pytest
from samples import random_data, small_config, write_config
from scipy.sparse import csr_matrix

from evalplugin.base.errors import ConfigError, MissingPackageError, ModelError
from evalplugin.base.seeding import generator
from evalplugin.data import Candidates
from evalplugin.features.config import load
from evalplugin.models import MODELS, NO_ITEM, one_blas_thread, recommend
from evalplugin.models.base import ListRequest

OWN = {  # each with parameters that a small set of ratings can be fitted with
    "AlternatingLeastSquares": (implicit.als, {"factors": 5, "random_state": 3}),
    "BayesianPersonalizedRanking": (implicit.bpr, {"factors": 5, "iterations": 10, "random_state": 3}),
    "LogisticMatrixFactorization": (implicit.lmf, {"factors": 5, "random_state": 3}),
    "CosineRecommender": (implicit.nearest_neighbours, {"K": 6}),
    "TFIDFRecommender": (implicit.nearest_neighbours, {"K": 6}),
    "BM25Recommender": (implicit.nearest_neighbours, {"K": 6, "B": 0.5}),
}
# Where the lists are computed, and what decides speed alone.
LEFT_OUT = {"dtype", "use_gpu", "use_native", "calculate_training_loss", "num_threads"}


@pytest.mark.parametrize("name", OWN)
@pytest.mark.filterwarnings("ignore:Method expects CSR input")
def test_lists_are_those_of_implicit_itself(name):
    data = random_data(n_users=60, n_items=40)
    module, params = OWN[name]
    matrix = csr_matrix(
        (np.ones(len(data)) if name.startswith("Bayesian") else data.rating, (data.user, data.item)),
        shape=(data.n_users, data.n_items),
        dtype=np.float32,
    )
    with one_blas_thread():
        own = getattr(module, name)(num_threads=1, **params)
        own.fit(matrix, show_progress=False)
    users = np.flatnonzero(data.rows.counts).astype(np.int32)
    ids, scores = own.recommend(users, matrix[users], N=8)

    model = MODELS.create(f"implicit.{name}", params)
    model.fit(data, generator(5, name))
    ours = recommend(model, ListRequest(data, users, 8, Candidates("unseen", excluded=data.rows)))
    all_scores = model.scores(users)
    for row in range(len(users)):
        listed = ids[row][(ids[row] >= 0) & (scores[row] > -1e30)]
        # The scores at each rank are the same; of items with one score, each may stand in either list.
        np.testing.assert_allclose(
            ours.score[row, : len(listed)], scores[row, : len(listed)], rtol=2e-5, atol=1e-6
        )
        np.testing.assert_allclose(
            all_scores[row, listed], ours.score[row, : len(listed)], rtol=2e-5, atol=1e-6
        )
        assert (ours.item[row] != NO_ITEM).all()


@pytest.mark.parametrize("name", OWN)
def test_parameters_and_defaults_are_those_of_implicit(name):
    theirs = {
        parameter.name: parameter.default
        for parameter in inspect.signature(getattr(OWN[name][0], name)).parameters.values()
        if parameter.name not in LEFT_OUT
    }
    cls = MODELS.entry(f"implicit.{name}").cls
    ours = {field.name: field.default for field in fields(cls) if field.init and field.name != "values"}
    assert ours == theirs


@pytest.mark.parametrize("name", [name for name in OWN if "Recommender" not in name])
@pytest.mark.parametrize(("n_users", "n_items"), [(300, 200), (2000, 30)])
def test_fit_bytes_estimates_memory(name, n_users, n_items):
    data = random_data(n_users=n_users, n_items=n_items)
    _ = data.rows, data.item_counts
    model = MODELS.create(f"implicit.{name}", {"factors": 64, "iterations": 1})
    model.prepare()
    tracemalloc.start()
    try:
        model.fit(data, generator(5, name))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0.5 * model.fit_bytes(data) < peak < 1.1 * model.fit_bytes(data)


def test_factors_that_are_too_large_are_refused_with_the_bytes(monkeypatch):
    from evalplugin.base import costs

    monkeypatch.setattr(costs, "_total_memory", lambda: 8000)
    model = MODELS.create("implicit.AlternatingLeastSquares", {"factors": 64})
    with pytest.raises(ModelError, match=r"with 64 factors needs .* take fewer factors"):
        model.fit(random_data(), generator(5, "als"))


def test_a_missing_package_is_one_error_with_the_command(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "implicit" else found(name, *rest)
    )
    message = (
        "implicit.BM25Recommender needs the package implicit, which is not installed: "
        "pip install implicit (in a clone of evalplugin: pip install -e '.[implicit]')"
    )
    with pytest.raises(MissingPackageError) as caught:
        MODELS.create("implicit.BM25Recommender")
    assert str(caught.value) == message
    with pytest.raises(ConfigError) as refused:
        load(Path(write_config(small_config(models=["random", "implicit.BM25Recommender"]))))
    assert re.fullmatch(rf"shop.yaml:\d+:3: models\[1\]: {re.escape(message)}", str(refused.value))
