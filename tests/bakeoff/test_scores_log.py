"""Tables of scores that are logged as bake-offs: the same numbers when read back, and what is refused before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient

import evalplugin
from evalplugin.base.errors import DataError, TrackingError
from evalplugin.cli import main
from evalplugin.report.competition import competition_of
from evalplugin.report.frames import compare_frame, frame_csv, segment_frame
from evalplugin.report.notebook import Comparisons
from evalplugin.tracking.read.logged import LoggedRun

N = 48
pytestmark = pytest.mark.usefixtures("no_drawing")


def scores(n: int = N, *, shift: float = 0.0, seed: int = 1, ids: str = "q{}") -> pd.DataFrame:
    """Return scores of three models by a gain and a loss, of questions on texts, some without a row or a value."""
    generator = np.random.default_rng(seed)
    ease = generator.normal(size=n) + np.repeat(generator.normal(size=n // 4), 4)
    parts = []
    for model, better in {"small": 0.0, "large": 0.8, "tuned": 1.0 + shift}.items():
        points = ease + better + generator.normal(size=n)
        part = pd.DataFrame({"question": [ids.format(i) if ids else i for i in range(n)], "llm": model})
        part = part.assign(
            points=points, seconds=generator.gamma(2.0, 1.0, n), right=(points > 0.5).astype(int)
        )
        places = np.arange(n)
        part["text"], part["level"] = places // 4, places % 30
        parts.append(part.assign(subject=np.where(places % 3, "law", "art")))
    table = pd.concat(parts, ignore_index=True)
    table.loc[5, "points"] = np.nan
    return table.drop(index=[0, 1, n + 7])


def compare(table: Any, uri: str | None = None, **choices: Any) -> Comparisons:
    given = {
        "unit": "question", "model": "llm", "value": ["points", "seconds", "right"], "lower_is_better": "seconds",
        "name": "answers", "log": uri is not None, "tracking_uri": uri,
    }  # fmt: skip
    return evalplugin.compare_scores(table, **given | choices)


CHOICES = [
    {},
    {"baseline": "small"},
    {"baseline": "large", "primary": "seconds", "cluster": "text"},
    {"cluster": "text", "segments": ["subject", "level"]},
    {"baseline": "small", "segments": "subject"},
]


@pytest.mark.slow
@pytest.mark.parametrize("choices", CHOICES)
@pytest.mark.parametrize("ids", ["q{}", ""])
def test_runs_give_the_numbers_of_the_table(uri: str, choices: dict[str, Any], ids: str) -> None:
    table = scores(ids=ids)
    expected, logged = compare(table, **choices), compare(table, uri, **choices)
    read = evalplugin.compare(tracking_uri=uri)
    by_id = evalplugin.compare(*logged.links.compared, tracking_uri=uri, baseline=choices.get("baseline"))
    for found in (logged, read, by_id):
        assert frame_csv(compare_frame(found.comparisons)) == frame_csv(compare_frame(expected.comparisons))
        contest, other = found[0].contest, expected[0].contest
        assert competition_of(contest) is None
        assert (contest.units.noun, contest.units.independent) == (other.units.noun, other.units.independent)
        assert contest.notes[-len(other.notes) :] == other.notes
        for segment in other.segments:
            pd.testing.assert_frame_equal(
                segment_frame(found.comparisons, segment.name),
                segment_frame(expected.comparisons, segment.name),
            )
        a, b = (each.users("small", "tuned") for each in (found, expected))
        pd.testing.assert_frame_equal(a, b)


def test_runs_hold_what_those_of_a_bake_off_hold(uri: str) -> None:
    links = compare(
        scores(), uri, baseline="small", cluster="text", segments="subject", experiment="llms"
    ).links
    client = MlflowClient(uri)
    run = client.get_run(links.compared[0])
    assert run.info.status == "FINISHED"
    keys = {*run.data.metrics}
    for key in ("points", "ci/points.low", "dist/seconds.p90", "dist/points.clusters", "vs_baseline/right.p_holm",
                "per_user_quantile/points", "segment/points.subject_law", "users"):  # fmt: skip
        assert key in keys
    assert not [key for key in keys if key.startswith(("cost/", "at_k/"))]
    assert not [key for key in run.data.params if key.startswith(("split.", "eval.n", "eval.candidates"))]
    assert run.data.params["data.units"] == str(N)
    files = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert {"summary.md", "per_user.json", "per_user_points.png", "config.yaml", "data"} <= files
    summary = client.get_run(links.summary_run_id)
    pages = {f.path for f in client.list_artifacts(summary.info.run_id)}
    assert {"comparison.html", "leaderboard.md"} <= pages
    assert summary.data.metrics["models"] == 3
    assert "difference/points" in summary.data.metrics
    (given,) = run.inputs.dataset_inputs
    assert json.loads(given.dataset.profile) == {"questions": N}
    assert run.data.tags["mlflow.note.content"].startswith("**tuned** on answers\n")
    text = Path(client.download_artifacts(run.info.run_id, "summary.md")).read_text("utf-8")
    assert "for the effective number of questions" in text
    for word in ("user", "item", "list length", "candidates", "split"):
        assert word not in text.replace("per_user", "")
    board = Path(client.download_artifacts(summary.info.run_id, "leaderboard.md")).read_text("utf-8")
    assert "worse than the baseline small, question by question" in board
    assert "recommend" not in board


def test_a_leaderboard_without_a_baseline_names_none(uri: str) -> None:
    links = compare(scores(), uri).links
    file = MlflowClient(uri).download_artifacts(links.summary_run_id, "leaderboard.md")
    assert "baseline" not in Path(file).read_text("utf-8")


def test_a_page_is_written_from_the_runs(uri: str, tmp_path: Path) -> None:
    compare(scores(), uri, cluster="text")
    evalplugin.compare(tracking_uri=uri).to_html(tmp_path / "page.html")
    assert "Question by question" in (tmp_path / "page.html").read_text("utf-8")


def test_history_follows_the_direction_of_a_given_metric(uri: str) -> None:
    for shift in (0.0, -4.0):
        compare(scores(400, shift=shift, seed=3), uri)
    better = evalplugin.history("scores", tracking_uri=uri)
    assert (better.metric, better.higher_is_better) == ("points", True)
    assert evalplugin.history("scores", metric="seconds", tracking_uri=uri).higher_is_better is False


def test_a_metric_of_our_own_name_is_not_taken_for_ours(uri: str) -> None:
    table = scores().rename(columns={"right": "ndcg@10"})
    links = compare(table, uri, value=["ndcg@10", "points"], lower_is_better=()).links
    client = MlflowClient(uri)
    definitions = LoggedRun(client, client.get_run(links.compared[0])).mapping("definitions")
    from evalplugin.metrics import definitions_hash, parse

    assert definitions["ndcg@10"] != definitions_hash([parse("ndcg@10")])[:12]
    assert evalplugin.compare(tracking_uri=uri)[0].contest.metrics == ("ndcg@10", "points")


def test_names_of_metrics_with_a_slash_and_a_comma_come_back(uri: str) -> None:
    names = {"points": "answer/points", "right": "right, strictly", "seconds": "token"}
    table = scores().rename(columns=names)
    expected = compare(table, value=[*names.values()], lower_is_better=())
    compare(table, uri, value=[*names.values()], lower_is_better=())
    assert frame_csv(compare_frame(evalplugin.compare(tracking_uri=uri).comparisons)) == frame_csv(
        compare_frame(expected.comparisons)
    )


def test_a_model_may_lack_all_scores_by_a_metric(uri: str) -> None:
    rows = scores().melt(["question", "llm"], ["points", "right"], "what", "score")
    rows = rows[(rows["llm"] != "small") | (rows["what"] != "right")]
    choices = {"metric": "what", "value": "score", "lower_is_better": ()}
    expected = compare(rows, **choices)
    compare(rows, uri, **choices)
    assert frame_csv(compare_frame(evalplugin.compare(tracking_uri=uri).comparisons)) == frame_csv(
        compare_frame(expected.comparisons)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["answers", "later"])
def test_runs_of_two_tables_are_compared_on_the_units_they_share(uri: str, name: str) -> None:
    first = compare(scores().query("llm != 'tuned'"), uri).links
    later = scores(seed=2).query("llm != 'small'").query("question != 'q3'")
    second = compare(later, uri, name=name).links
    runs = [first.compared[0], second.compared[0]]
    (shared,) = evalplugin.compare(*runs, tracking_uri=uri)
    metric = shared.contest.primary
    assert {model.cells[metric].users for model in shared.models} == {46}


def test_runs_whose_units_are_in_other_clusters_are_refused(uri: str) -> None:
    table = scores()
    other = table.assign(text=table["text"].where(table["question"] != "q9", 0))
    links = [compare(rows, uri, cluster="text").links for rows in (table, other)]
    runs = [link.compared[0] for link in links if link is not None]
    with pytest.raises(DataError, match="clusters: q9 is in '2' and in '0'"):
        evalplugin.compare(*runs, tracking_uri=uri)


def test_runs_with_other_clusters_are_refused_and_metrics_with_other_directions_left_out(uri: str) -> None:
    links = [
        compare(scores(), uri, **choices).links
        for choices in ({}, {"cluster": "text"}, {"lower_is_better": ["seconds", "points"]})
    ]
    runs = [link.compared[0] for link in links if link is not None]
    with pytest.raises(DataError, match="clusters: none"):
        evalplugin.compare(runs[0], runs[1], tracking_uri=uri)
    (comparison,) = evalplugin.compare(runs[0], runs[2], tracking_uri=uri)
    assert comparison.contest.metrics == ("seconds", "right")
    assert "left out, as not all runs have them by the same definition: points" in comparison.contest.notes[0]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"right": "accuracy %"}, "answers: metric 'accuracy %': MLflow cannot store the name"),
        ({"right": "Points"}, "metrics 'points' and 'Points' would both be"),
        ({"right": "users"}, "already holds the count"),
        ({"right": "user"}, "cannot be called 'user'"),
        ({"right": "a" * 9000}, "has 9000 characters in MLflow"),
    ],
)
def test_names_that_cannot_be_logged_are_refused_before_anything_is_compared(
    names: dict[str, str], message: str, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalplugin.bakeoff.scores_log.compare", None)
    table = scores().rename(columns=names)
    with pytest.raises(DataError, match=message):
        compare(table, uri, value=["points", *names.values()], lower_is_better=())
    assert not MlflowClient(uri).get_experiment_by_name("scores")


def test_a_store_that_cannot_be_reached_is_refused_before_anything_is_compared(monkeypatch):
    monkeypatch.setattr("evalplugin.bakeoff.scores_log.compare", None)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(TrackingError, match="cannot reach it"):
        compare(scores(), "http://127.0.0.1:9")


def test_a_segment_called_as_the_column_of_units_is_refused(uri: str) -> None:
    with pytest.raises(DataError, match="a segment that is logged cannot be called 'user'"):
        compare(scores().rename(columns={"subject": "user"}), uri, segments="user")


@pytest.mark.parametrize("choices", [{"experiment": "x"}, {"tracking_uri": "sqlite:///x.db"}])
def test_a_place_of_the_log_needs_a_log(choices: dict[str, str]) -> None:
    with pytest.raises(DataError, match="log=True"):
        compare(scores(), **choices)


def test_the_command_logs_and_prints_the_links(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    scores().to_csv("scores.csv", index=False)
    table = ["compare-scores", "scores.csv", "--unit", "question", "--model", "llm", "--value", "points"]
    log = ["--log", "--tracking-uri", uri, "--experiment", "llms"]
    assert main([*table, *log]) == 0
    assert "board    http" in capsys.readouterr().out
    assert main([*table, *log, "--format", "json"]) == 0
    printed = capsys.readouterr()
    (logged,) = json.loads(printed.out)
    assert "board    http" in printed.err
    assert main(["compare", "--bakeoff", "latest", "--tracking-uri", uri, "--format", "json"]) == 0
    (read,) = json.loads(capsys.readouterr().out)
    notes = logged.pop("notes")
    assert read.pop("notes")[-len(notes) :] == notes
    assert {**read, "name": None} == {**logged, "name": None}
    assert main(["history", "--experiment", "llms", "--tracking-uri", uri]) == 0
    assert "points" in capsys.readouterr().out
