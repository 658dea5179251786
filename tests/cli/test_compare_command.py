"""The command ``compare`` as a user types it, on a real SQLite store."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from samples import CHANCE, TINY, small_config

import evalplugin
from evalplugin.cli import main

pytestmark = pytest.mark.usefixtures("no_drawing")

PLUGIN = """
import numpy as np
import evalplugin

@evalplugin.metric("listed", higher_is_better=True, bounds=(0, 1))
def listed(ranked, k):
    "Return one for everybody."
    return np.ones(ranked.n_users)
"""


def config(**changes: Any) -> dict[str, Any]:
    own = {
        "datasets": [{**TINY, "n_users": 120, "n_interactions": 3000}],
        "metrics": ["ndcg@10", "rr", "coverage@10"],
        "models": ["random", "popularity", CHANCE],
    }
    return small_config(**{**own, **changes})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A store with two bake-offs on the same data."""
    folder = tmp_path_factory.mktemp("store")
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    later = config(models=["popularity", CHANCE], metrics=["rr"], compare={})
    return SimpleNamespace(
        folder=folder,
        uri=uri,
        first=evalplugin.run(config(), tracking_uri=uri),
        second=evalplugin.run(later, tracking_uri=uri, experiment="other"),
    )


@pytest.fixture
def compare(
    store: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    """Run the command in the store's folder: exit code, stdout, stderr."""
    monkeypatch.chdir(store.folder)

    def run(*argv: str) -> tuple[int, str, str]:
        code = main(["compare", *argv])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def values(store: SimpleNamespace, model: str, metric: str) -> Any:
    return next(m for m in store.first.models if m.model == model).per_user.column(metric)


def expected(store: SimpleNamespace, model: str, metric: str) -> tuple[float, float, float]:
    """Return mean, difference from random, and share of users who are better off, computed apart."""
    both = values(store, model, metric) - values(store, "random", metric)
    both = both[~np.isnan(both)]
    return float(np.nanmean(values(store, model, metric))), float(both.mean()), float((both > 0).mean())


def test_compare_table_has_leaderboard_segments_and_significance(store, compare):
    code, out, err = compare("--experiment", "shop", "--segment", "activity")
    assert code == 0
    mean, difference, better = expected(store, "popularity", "ndcg@10")
    lines = out.splitlines()
    assert lines[0] == "tiny, last_n: ndcg@10, higher is better"
    assert lines[1].startswith("popularity is the best: ")
    assert f"popularity does better for {100 * better:.0f} % of them, random for " in lines[1]
    row = next(line for line in lines if line.startswith(" 1   popularity"))
    assert f"{mean:.4f}" in row
    assert f"+{difference:.4f} ▲" in row
    assert "tiny, last_n: ndcg@10 by activity" in lines
    test = "paired permutation test, two-sided (10,000 sign flips)"
    assert f"{test}, Holm's correction over 2 comparisons" in out
    assert "Every two models: --pairs all." in lines
    assert err == "read and compare the runs ...\n"


@pytest.mark.parametrize("shown", ["json", "csv"])
def test_compare_json_and_csv_match_the_logged_runs(shown: str, store: SimpleNamespace, compare: Any) -> None:
    code, out, _ = compare("--experiment", "shop", "--format", shown, "--test", "t")
    assert code == 0
    rows = json.loads(out)[0]["rows"] if shown == "json" else list(csv.DictReader(io.StringIO(out)))
    assert {row["metric"] for row in rows} == {"ndcg@10", "rr", "coverage@10"}
    for metric in ("ndcg@10", "rr"):
        row = next(row for row in rows if (row["metric"], row["model"]) == (metric, "chance"))
        found = [float(row[name]) for name in ("mean", "difference", "better")]
        assert found == pytest.approx(expected(store, "chance", metric), abs=1e-15)
        assert 0 <= float(row["p_t"]) <= 1


@pytest.mark.parametrize("shown", ["markdown", "latex"])
def test_compare_markdown_and_latex_have_the_selected_metrics(shown, store, compare):
    between = " | " if shown == "markdown" else " & "
    _, out, _ = compare("--experiment", "shop", "--format", shown, "-m", "rr")
    row = next(line for line in out.splitlines() if f"{between}popularity{between}" in line)
    mean, difference, _ = expected(store, "popularity", "rr")
    assert f"{mean:.4f}" in row
    assert f"+{difference:.4f}" in row
    assert "ndcg@10, higher" not in out
    assert "ndcg@10, higher" in compare("--experiment", "shop", "--format", shown)[1]


def test_overlap_of_logged_lists_is_a_table_and_json(compare: Any) -> None:
    argv = ("--experiment", "shop", "--overlap")
    code, out, _ = compare(*argv)
    assert code == 0
    assert "overlap of lists" in out
    assert "list most alike" in out
    code, out, _ = compare(*argv, "--format", "json")
    (content,) = json.loads(out)
    pairs = {frozenset((row["model"], row["against"])): row for row in content["overlap"]}
    assert len(pairs) == 3
    for row in pairs.values():
        assert (row["k"], row["lists"]) == (10, 120)
        assert 0 < row["jaccard"] < 1
        assert 0 < row["rbo"] < 1
    code, out, _ = compare(*argv, "--format", "markdown")
    assert "| model | against | rbo | jaccard |" in out


def test_overlap_of_an_outcome_is_that_of_its_logged_lists(store: SimpleNamespace) -> None:
    logged = evalplugin.compare(experiment="shop", tracking_uri=store.uri).overlap()
    assert evalplugin.compare(store.first).overlap().equals(logged)


def test_compare_defaults_to_the_latest_bakeoff_and_names_it_on_stderr(store, compare):
    code, out, err = compare()
    latest = store.second.plan.id
    assert code == 0
    assert "tiny, last_n: rr, model against model" in out  # there is no baseline
    assert err.splitlines()[1] == (
        f"the latest bake-off of {store.uri}: {latest} (experiment 'other'); --bakeoff ID takes another"
    )
    named = compare("--bakeoff", latest)
    assert (named[1], named[2]) == (out, "read and compare the runs ...\n")


def test_runs_of_different_bakeoffs_are_compared_by_the_metrics_of_all(
    store: SimpleNamespace, compare: Any
) -> None:
    ids = [run_id(store, "random", "shop"), run_id(store, "chance", "other")]
    code, out, err = compare(*ids, "--format", "json")
    assert code == 0
    row = next(row for row in json.loads(out)[0]["rows"] if row["model"] == "chance")
    assert (row["metric"], row["against"]) == ("rr", "random")
    assert row["difference"] == pytest.approx(expected(store, "chance", "rr")[1], abs=1e-15)
    assert "metrics in common: 1 of 3; left out" in err


def test_compare_options_baseline_primary_pairs_and_level(compare: Any) -> None:
    argv = "--experiment shop --baseline chance --primary rr --level 0.9 --format json"
    _, out, _ = compare(*argv.split())
    (one,) = json.loads(out)
    assert (one["baseline"], one["primary"], one["level"]) == ("chance", "rr", 0.9)
    assert {row["against"] for row in one["rows"]} == {"chance", None}
    _, out, _ = compare("--experiment", "shop", "--pairs", "all", "-m", "rr", "--format", "json")
    assert sum(row["against"] is not None for row in json.loads(out)[0]["rows"]) == 3


def test_compare_html_writes_the_page(compare: Any, tmp_path: Path) -> None:
    code, _, err = compare("--experiment", "shop", "--html", str(tmp_path / "page.html"))
    assert code == 0
    assert "write the page ..." in err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert "popularity" in page


@pytest.mark.parametrize("command", [["compare", "--html"], ["history", "--experiment", "shop", "--chart"]])
def test_a_page_never_replaces_the_store_that_is_read(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("runs.html").write_bytes(b"a database")
    Path("link.html").symlink_to("runs.html")
    assert main([*command, "link.html", "--tracking-uri", "sqlite:///runs.html"]) == 2
    assert "link.html: is read too, as " in capsys.readouterr().err
    assert Path("runs.html").read_bytes() == b"a database"


def test_compare_of_plugin_metric_needs_the_plugin(compare, store, tmp_path, capsys):
    from evalplugin.metrics import METRICS

    (tmp_path / "own.py").write_text(PLUGIN)
    own = config(plugins=[str(tmp_path / "own.py")], metrics=["listed@5"], experiment="own")
    evalplugin.run(own, tracking_uri=f"sqlite:///{tmp_path / 'own.db'}")
    capsys.readouterr()
    del METRICS._entries["listed"]
    there = ("--tracking-uri", f"sqlite:///{tmp_path / 'own.db'}")
    code, out, err = compare(*there)
    assert code == 2
    assert "was scored by a metric that is not known here: unknown metric 'listed'" in err
    assert "--plugin FILE" in err
    (tmp_path / "again.py").write_text(PLUGIN)
    code, out, err = compare(*there, "--plugin", str(tmp_path / "again.py"))
    assert code == 0
    assert "tiny, last_n: listed@5, higher is better" in out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["populrity"], "has no run with results called 'populrity'; did you mean 'popularity'?"),
        (["--experiment", "shop", "-m", "rr@3"], "metric 'rr@3' is not there; did you mean 'rr'?"),
        (["--experiment", "shop", "-m", "ndgc@10"], "unknown metric 'ndgc'; did you mean 'ndcg'?"),
        (
            ["--experiment", "shop", "--segment", "actvity"],
            "not grouped by 'actvity'; did you mean 'activity'?",
        ),
        (["--experiment", "shop", "--level", "95"], "level of an interval must be between 0 and 1, not 95.0"),
        (["--experiment", "shop", "--html", "nowhere/page.html"], "nowhere/page.html: there is no folder "),
        (["--experiment", "shop", "--test", "z"], "'z' is not one of 'wilcoxon', 't'"),
    ],
)
def test_usage_error_is_one_message_and_exit_code_2(argv: list[str], message: str, compare: Any) -> None:
    code, out, err = compare(*argv)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_compare_of_missing_tracking_store_names_it(compare: Any, tmp_path: Path) -> None:
    code, out, err = compare("--tracking-uri", f"sqlite:///{tmp_path}/none.db")
    assert (code, out) == (1, "")
    assert f"error: there is no tracking store sqlite:///{tmp_path}/none.db; name another with --track" in err


def run_id(store: SimpleNamespace, model: str, experiment: str) -> str:
    from mlflow import MlflowClient

    client = MlflowClient(store.uri)
    home = client.get_experiment_by_name(experiment)
    (run,) = client.search_runs([home.experiment_id], f"tags.`evalplugin.model` = '{model}'")
    return str(run.info.run_id)
