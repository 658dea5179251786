"""The command ``tune``: the best parameters of tuned models, as YAML to paste."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from samples import small_config

from evalplugin.cli import main
from evalplugin.features.config import load

SVD: dict[str, Any] = {
    "name": "svd",
    "type": "sklearn.TruncatedSVD",
    "params": {"n_iter": 2},
    "tune": {"n_components": {"int": [2, 20]}},
}
FAILS = """
from dataclasses import dataclass
import evalplugin

@evalplugin.model("fails")
@dataclass
class Fails:
    k: int = 1

    def fit(self, train, rng):
        raise RuntimeError(f"s3://key:hunter2@bucket has no model of {self.k}")

    def scores(self, users): ...
"""


def write(**changes: Any) -> str:
    config = {"models": ["popularity", SVD], "tune": {"budget": {"trials": 4}}, "compare": {}} | changes
    given = {key: value for key, value in small_config(**config).items() if value is not None}
    Path("shop.yaml").write_text(yaml.safe_dump(given, sort_keys=False))
    return "shop.yaml"


def test_the_best_parameters_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    file = write()
    assert main(["tune", file]) == 0
    out, err = capsys.readouterr()
    (entry,) = yaml.safe_load(out)["models"]
    assert entry["name"] == "svd"
    assert entry["params"]["n_iter"] == 2
    assert 2 <= entry["params"]["n_components"] <= 20
    for comment in (
        "# tiny, last_n\n# tuned by ndcg@10 within the train data, last_n(n=4, min_train=1, cold=keep); budget of each "
        "model: 4 trials\nmodels:\n",
        r"  # ndcg@10 0\.\d{4} on the validation data, 0\.\d{4} with the defaults; 4 trials",
    ):
        assert re.search(comment if r"\d" in comment else re.escape(comment), out), out
    assert "tune 1 model" in err

    tuned = load(small_config(models=["popularity", entry], compare={})).models[1]
    assert tuned.params["n_components"] == entry["params"]["n_components"]
    assert not Path("mlflow.db").exists()
    assert not Path("mlruns").exists()


def test_more_trials_begin_with_those_that_are_stored(capsys, monkeypatch):
    from sklearn.decomposition import TruncatedSVD

    file = write()
    main(["tune", file])
    first = capsys.readouterr().out
    fitted = []
    fit = TruncatedSVD.fit_transform
    monkeypatch.setattr(
        TruncatedSVD, "fit_transform", lambda self, *a: (fitted.append(self), fit(self, *a))[1]
    )
    assert main(["tune", file]) == 0
    assert capsys.readouterr().out == first
    assert fitted == []
    assert main(["tune", file, "--set", "tune.budget.trials=6"]) == 0
    assert len(fitted) <= 2
    assert "6 trials" in capsys.readouterr().out
    assert main(["tune", file, "--fresh"]) == 0
    assert len(fitted) > 2


def test_nothing_to_tune_is_an_error_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    file = write(models=["popularity", {"type": "sklearn.TruncatedSVD"}], tune=None)
    assert main(["tune", file]) == 2
    assert capsys.readouterr().err == (
        "error: shop.yaml: no model has a key tune, so nothing is to be tuned; for example: "
        "{type: surprise.KNNBasic, tune: {k: {int: [5, 300]}}}\n"
    )


def test_a_model_whose_every_trial_fails_is_a_comment_and_exit_code_1(capsys):
    Path("fails.py").write_text(FAILS)
    fails = {"type": "fails", "tune": {"k": {"int": [1, 9]}}}
    file = write(plugins=["fails.py"], models=["popularity", SVD, fails])
    assert main(["tune", file]) == 1
    out = capsys.readouterr().out
    assert [model["name"] for model in yaml.safe_load(out)["models"]] == ["svd"]
    assert (
        "  # fails: every trial failed: fails.py:11: RuntimeError: s3://***@bucket has no model of 1\n" in out
    )


def test_each_split_has_a_document_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    splits = [{"name": "latest", "type": "last_n", "n": 4}, {"name": "folds", "type": "kfold", "k": 2}]
    assert main(["tune", write(split=splits)]) == 0
    out = capsys.readouterr().out
    first, second = out.split("\n---\n")
    assert "# tiny, latest" in first
    assert "# tiny, folds" in second
    assert "8 trials" in second  # 4 on each fold
    assert [len(one["models"]) for one in yaml.safe_load_all(out)] == [1, 1]


def test_other_mistakes_are_those_of_the_config(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "nowhere.yaml"]) == 2
    assert main(["tune", write(), "--set", "tune.budget.trials=0"]) == 2
    assert "tune.budget.trials" in capsys.readouterr().err
