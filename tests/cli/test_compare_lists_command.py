"""``compare`` with lists that ``score --log`` logged: what is found, and what is left out."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd
import pytest
from mlflow import MlflowClient
from samples import TINY, small_config

import evalplugin
from evalplugin.cli import main

SPLITS = [{"name": "last", "type": "last_n", "n": 1}, {"name": "three", "type": "last_n", "n": 3}]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, no_drawing: None) -> SimpleNamespace:
    """A store with a bake-off of two splits, and lists for one of them: in its experiment and in another."""
    folder = tmp_path_factory.mktemp("films")
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    config = small_config(
        experiment="films", datasets=[TINY], split=SPLITS, metrics=["rr"], models=["random", "popularity"],
        compare={"baseline": "popularity"},
    )  # fmt: skip
    outcome = evalplugin.run(config, tracking_uri=uri)
    result = next(m for m in outcome.models if m.model == "popularity" and m.data.split == "last")
    result.top_n.to_pandas().to_csv(folder / "lists.csv", index=False)
    (comparison,) = (c for c in outcome.comparisons if c.contest.split == "last")
    comparison.contest.background.truth.to_pandas().to_csv(folder / "truth.csv", index=False)
    threshold = outcome.plan.relevance.threshold
    files = ["--lists", str(folder / "lists.csv"), "--truth", str(folder / "truth.csv"), "-m", "rr"]
    files += [] if threshold is None else ["--threshold", str(threshold)]
    for name, more in {"recent": ["--experiment", "films"], "apart": []}.items():
        assert main(["score", *files, "--log", "--name", name, "--tracking-uri", uri, *more]) == 0
    return SimpleNamespace(folder=folder, uri=uri)


@pytest.fixture
def titles(store: SimpleNamespace, capsys: pytest.CaptureFixture[str]):
    """Compare in the experiment ``films``: the titles of the tables, and stderr."""

    def run(*argv: str, code: int = 0) -> tuple[list[str], str]:
        assert main(["compare", *argv, "--experiment", "films", "--tracking-uri", store.uri]) == code
        captured = capsys.readouterr()
        return [line for line in captured.out.splitlines() if "is better" in line], captured.err

    return run


LAST = "tiny, last: rr, higher is better"
THREE = "tiny, three: rr, higher is better"


def test_logged_lists_are_the_baseline_where_they_were_scored_and_nothing_is_appended(titles) -> None:
    shown, err = titles("recent", "random", "popularity", "--baseline", "recent")
    assert shown == [LAST]
    assert "left out: tiny, three has no recent" in err
    assert titles("--baseline", "recent")[0] == [LAST]


def test_lists_in_another_experiment_are_found_and_told(titles) -> None:
    shown, err = titles("apart", "random", "--baseline", "apart")
    assert shown == [LAST]
    assert "apart is not in the experiment 'films': it is taken from the experiment 'lists'" in err


def test_models_on_all_splits_are_compared_on_each(titles) -> None:
    assert sorted(titles("random", "popularity")[0]) == [LAST, THREE]


def test_split_and_dataset_choose_where_to_compare(titles) -> None:
    assert titles("--split", "three")[0] == [THREE]
    assert titles("--dataset", "tiny", "--split", "last")[0] == [LAST]
    shown, err = titles("--split", "thre", code=2)
    assert (shown, "nothing was compared on thre; there is: tiny, last; tiny, three" in err) == ([], True)


def test_a_baseline_that_is_nowhere_is_an_error(titles) -> None:
    assert "no model is called 'recnt' to be the baseline" in titles("--baseline", "recnt", code=2)[1]


@pytest.mark.parametrize("command", ["compare", "history"])
def test_a_deleted_experiment_is_called_so(command, tmp_path, capsys):
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    table = pd.DataFrame({"q": [1, 2, 3], "a": [1, 0, 1], "b": [0, 0, 1]})
    links = evalplugin.compare_scores(
        table, unit="q", wide=True, log=True, experiment="gone", tracking_uri=uri
    ).links
    MlflowClient(uri).delete_experiment(links.experiment_id)
    capsys.readouterr()
    assert main([command, "--experiment", "gone", "--tracking-uri", uri]) == 2
    assert "the experiment 'gone' of sqlite:///" in (err := capsys.readouterr().err)
    assert f"is deleted; mlflow experiments restore -x {links.experiment_id}" in err
