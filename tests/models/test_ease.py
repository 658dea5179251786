from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from samples import matrix_of, random_data, small_config

import evalplugin
from evalplugin.bakeoff.dry_run import dry_run
from evalplugin.base.seeding import generator
from evalplugin.features.config import load
from evalplugin.models import MODELS
from evalplugin.workspace import Workspace


def fit(data, **params):
    model = MODELS.create("ease", params)
    model.fit(data, generator(5, "ease"))
    return model


@pytest.mark.parametrize("values", ["rating", "binary"])
def test_the_weights_are_those_of_the_paper(values):
    data = random_data()
    x = matrix_of(data, values == "binary")
    gram = x.T @ x + 3.0 * np.eye(data.n_items)
    weights = np.linalg.inv(gram)
    weights = weights / -np.diag(weights)
    np.fill_diagonal(weights, 0)
    model = fit(data, l2=3.0, values=values)
    np.testing.assert_allclose(model.scores(np.arange(data.n_users)), x @ weights, atol=1e-9)


def test_single_precision_has_the_same_weights_but_for_rounding():
    data = random_data()
    model, single = fit(data), fit(data, precision="float32")
    assert single._weights.dtype == np.float32
    users = np.arange(data.n_users)
    assert single.scores(users).dtype == np.float32
    np.testing.assert_allclose(single.scores(users), model.scores(users), rtol=1e-3, atol=1e-6)


def test_no_small_change_of_a_weight_is_better():
    # What the closed form minimises, without it: ||X - X B||² + l2 ||B||² with a diagonal of zeros.
    data = random_data()
    x = matrix_of(data, binary=True)
    model = fit(data, l2=3.0)
    present = np.flatnonzero(data.item_counts)
    found = model._weights
    x = x[:, present]

    def loss(weights):
        return ((x - x @ weights) ** 2).sum() + 3.0 * (weights**2).sum()

    rng = np.random.default_rng(0)
    for _ in range(20):
        step = rng.normal(size=found.shape) * 1e-3
        np.fill_diagonal(step, 0)
        assert loss(found + step) > loss(found)


def test_a_bakeoff_shows_the_memory_and_refuses_one_fit_alone(monkeypatch, tmp_path):
    from evalplugin.base import costs

    config = small_config(models=["popularity", "ease"], compare={"baseline": "popularity"})
    planned = dry_run(Workspace.open(load(config))).jobs[1]
    assert planned.fit_mb == pytest.approx((8 * 80**2 + 36 * 1260) / 2**20, rel=0.1)
    monkeypatch.setattr(costs, "_total_memory", lambda: 8000)
    result = evalplugin.run(config, tracking_uri=f"sqlite:///{tmp_path}/mlflow.db")
    assert [model.error is None for model in result.models] == [True, False]
    said = r"ModelError: ease with \d\d items needs [\d,]+ bytes .* there are 8,000 .*; set precision to float32 "
    assert re.search(said, result.failed[0].error)
    assert "matrix_of" not in result.failed[0].error  # before anything is computed


def test_fit_bytes_counts_items_with_train_data_only():
    data = random_data()
    more = replace(data, items=np.arange(1000))
    model = MODELS.create("ease")
    assert model.fit_bytes(data) == model.fit_bytes(more) == 8 * 19**2 + 36 * len(data)
    assert MODELS.create("ease", {"precision": "float32"}).fit_bytes(data) == 4 * 19**2 + 36 * len(data)
