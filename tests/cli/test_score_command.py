from __future__ import annotations

import io
import json
import re
from math import nan
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import evalplugin
from evalplugin.cli import main
from evalplugin.lists.scores import ScoreRow

LISTS = pd.DataFrame({"user": [1, 1, 2, 2, 3], "item": [10, 20, 30, 10, 20], "rank": [1, 2, 1, 2, 1]})
TRUTH = pd.DataFrame({"user": [1, 2, 4], "item": [20, 30, 10], "rating": [4.0, 2.5, 1.0]})
TRAIN = pd.DataFrame({"user": [1, 2, 3], "item": [30, 20, 20]})
EXPECTED = {"rr": (1 / 2 + 1 + 0) / 3, "hit@1": 1 / 3}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, frame in (("lists", LISTS), ("truth", TRUTH), ("train", TRAIN)):
        frame.to_csv(f"{name}.csv", index=False)
        frame.to_parquet(f"{name}.parquet", index=False)
    Path("folder").mkdir()
    LISTS[:2].to_parquet("folder/a.parquet", index=False)
    LISTS[2:].to_parquet("folder/b.parquet", index=False)
    return tmp_path


def score(*argv: str) -> int:
    return main(["score", *argv])


def asked(lists: str = "lists.csv", truth: str = "truth.csv") -> list[str]:
    return ["--lists", lists, "--truth", truth, "-m", "rr", "-m", "hit@1"]


@pytest.mark.parametrize("lists", ["lists.csv", "lists.parquet", "folder", "folder/*.parquet"])
@pytest.mark.parametrize("truth", ["truth.csv", "truth.parquet"])
def test_score_json_means_from_every_file_format(files, capsys, lists, truth):
    assert score(*asked(lists, truth), "--format", "json") == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert {name: row["mean"] for name, row in found.items()} == EXPECTED
    assert (found["rr"]["users"], found["rr"]["undefined"]) == (3, 1)
    assert err == ""


def test_score_prints_means_as_table_and_csv(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert score(*asked(), "-m", "coverage@1") == 0
    table = capsys.readouterr().out
    assert "lists.csv" in table
    rows = [line.split()[:2] for line in table.splitlines()]
    shown = [" ".join(row) for row in rows if len(row) == 2 and row[1].count(".")]
    assert shown == ["rr 0.5000", "hit@1 0.3333", "coverage@1 1.0000"]
    assert score(*asked(), "-m", "coverage@1", "--format", "csv") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "metric,mean,low,high,users,undefined"
    assert lines[1].startswith("rr,0.5,")
    assert lines[3] == "coverage@1,1.0,,,4,0"


@pytest.mark.parametrize("name", ["per_user.parquet", "per_user.csv"])
def test_score_out_writes_per_user_scores(files: Path, name: str) -> None:
    assert score(*asked(), "--out", name) == 0
    written = pd.read_parquet(name) if name.endswith(".parquet") else pd.read_csv(name)
    expected = evalplugin.score(LISTS, TRUTH, ["rr", "hit@1"]).per_user.reset_index()
    pd.testing.assert_frame_equal(written, expected)
    assert sorted(p.name for p in files.iterdir() if p.name.startswith(".")) == []


@pytest.mark.parametrize("option", ["--lists", "--truth", "--train"])
def test_score_out_never_replaces_an_input(files, option, capsys):
    inputs = {"--lists": "lists.csv", "--truth": "truth.csv", "--train": "train.csv"}
    before = {path: Path(path).read_bytes() for path in inputs.values()}
    target = f"./folder/../{inputs[option]}"
    arguments = [word for pair in inputs.items() for word in pair]
    assert score(*arguments, "-m", "rr", "--out", target) == 2
    assert f"{inputs[option]}, and would be replaced: write to another file" in capsys.readouterr().err
    assert {path: Path(path).read_bytes() for path in inputs.values()} == before


def test_score_options_train_threshold_and_columns(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    LISTS.set_axis(["u", "i", "place"], axis=1).to_csv("other.csv", index=False)
    argv = (
        "--lists other.csv --truth truth.csv --train train.csv -m popularity@1 -m rr --threshold 2.5 --format json "
        "--user u --item i --rank place --truth-user user --truth-item item --rating rating"
    )
    assert score(*argv.split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["popularity@1"]["mean"] == (0 + 1 + 2) / 3
    assert found["rr"]["mean"] == (1 / 2 + 1) / 2


TREC = ["--input-format", "trec"]
RUN = "u1 Q0 d2 1 0.5 tag\nu1 Q0 d1 2 0.9 tag\nu2 Q0 d1 1 3 tag\nu2\tQ0\td3  2  1.5 tag\n"
QRELS = "u1 0 d1 2\nu1 0 d3 0\nu2 0 d3 1\nu3 0 d1 1\n"


def test_trec_files_rank_by_score_and_agree_with_pytrec_eval(files, capsys):
    import pytrec_eval

    Path("run.txt").write_text(RUN)
    Path("qrels.txt").write_text(QRELS)
    trec = ["--lists", "run.txt", "--truth", "qrels.txt", *TREC]
    assert score(*trec, "-m", "ndcg@2", "-m", "ap", "-m", "rr", "--out", "per_user.csv") == 0
    with open("run.txt") as run, open("qrels.txt") as qrels:
        theirs = pytrec_eval.RelevanceEvaluator(
            pytrec_eval.parse_qrel(qrels), {"ndcg_cut.2", "map", "recip_rank"}
        ).evaluate(pytrec_eval.parse_run(run))
    ours = pd.read_csv("per_user.csv", index_col="user")
    for user, values in theirs.items():
        expected = [values["ndcg_cut_2"], values["map"], values["recip_rank"]]
        assert ours.loc[user].tolist() == pytest.approx(expected)
    assert ours.loc["u3"].tolist() == [0, 0, 0]  # trec_eval leaves out who has no list
    capsys.readouterr()
    argv = [*trec, "--as", "trec_eval"]
    assert score(*argv, "-m", "map", "-m", "ndcg_cut_2", "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    means = {name: np.mean([v[name] for v in theirs.values()]) for name in ("map", "ndcg_cut_2")}
    assert found == pytest.approx(means)
    assert score(*argv, "-m", "map") == 0
    assert "as trec_eval" in capsys.readouterr().out
    assert score(*argv, "-m", "map", "--format", "csv") == 0
    assert capsys.readouterr().out.startswith("metric,value\nmap,")
    assert score(*argv, "-m", "mapp") == 2
    assert "did you mean 'map'" in capsys.readouterr().err
    assert score(*argv, "-m", "map", "--out", "x.csv") == 2
    assert "--out does not go with it" in capsys.readouterr().err


def test_score_ids_text_reads_csv_ids_as_text(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("zeros.csv").write_text("user,item,rank\n01,007,1\n1,7,1\n")
    Path("zeros_truth.csv").write_text("user,item\n01,007\n1,007\n")
    argv = ["--lists", "zeros.csv", "--truth", "zeros_truth.csv", "-m", "rr", "--format", "json"]
    for options in ([], ["--ids", "text"]):
        assert score(*argv, *options) == 0
        assert json.loads(capsys.readouterr().out)["rr"]["mean"] == 1 / 2


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (asked("list.csv"), "did you mean 'lists.csv'?"),
        (asked()[:4], "no metric is asked for"),
        ([*asked(), "-m", "rrr"], "did you mean 'rr'"),
        (asked("lists.dat"), "the format is not known by the name"),
        ([*asked(), "--out", "x.txt"], "x.txt: per-user scores are written as .parquet or .csv, not '.txt'"),
        ([*asked(), "--out", "no/x.csv"], "there is no folder"),
        ([*asked(), "--memory", "much"], "memory must be a size such as 2GB or 500MB, not 'much'"),
        ([*asked(), "--memory", "1KB"], "only Parquet files are scored in partitions"),
    ],
)
def test_score_errors_exit_2_with_a_message(files, capsys, argv, message):
    Path("lists.dat").write_text("x")
    assert score(*argv) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert "Traceback" not in err
    assert out == ""


def test_score_log_writes_a_run_like_a_models(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import mlflow

    logged = "--train train.csv -m coverage@1 --log --tracking-uri sqlite:///ml.db --name mine --experiment elsewhere"
    assert score(*asked(), *logged.split()) == 0
    out = capsys.readouterr().out
    assert "store    sqlite:///" in out
    assert "mlflow ui" in out
    client = mlflow.MlflowClient(f"sqlite:///{Path.cwd()}/ml.db")
    experiment = client.get_experiment_by_name("elsewhere")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "mine"
    assert run.data.tags["evalplugin.role"] == "model"
    assert run.data.metrics["rr"] == 1 / 2
    assert run.data.metrics["coverage_at_1"] == 1
    assert {"ci/rr.low", "dist/rr.p50", "at_k/rr", "per_user_quantile/rr", "users"} <= set(run.data.metrics)
    assert run.data.params["data.truth"] == "truth.csv"
    assert [d.dataset.name for d in run.inputs.dataset_inputs] == ["truth.csv train", "truth.csv test"]
    names = {a.path for a in client.list_artifacts(run.info.run_id)}
    assert {"config.yaml", "per_user.json", "per_user_rr.png", "summary.md", "data"} <= names
    assert f"/#/experiments/{experiment.experiment_id}/runs/{run.info.run_id}" in out


STRANGERS = pd.DataFrame({"user": [1, 2, 3, 7, 900], "item": [30, 20, 20, 70, 70]})


@pytest.mark.parametrize(
    ("kind", "options"), [("csv", []), ("parquet", []), ("parquet", ["--memory", "1KB"])]
)
@pytest.mark.parametrize("text_ids", [False, True])
def test_train_users_and_items_unknown_to_lists_and_truth_are_logged(
    files: Path, uri: str, capsys: pytest.CaptureFixture[str], kind: str, options: list[str], text_ids: bool
) -> None:
    import mlflow

    for name, frame in (("lists", LISTS), ("truth", TRUTH), ("train", STRANGERS)):
        if text_ids:
            frame = frame.assign(user="u" + frame["user"].astype(str))
        getattr(frame, f"to_{kind}")(f"{name}.{kind}", index=False)
    argv = [*asked(f"lists.{kind}", f"truth.{kind}"), "--train", f"train.{kind}", "-m", "novelty@1", *options]
    assert score(*argv, "--log", "--tracking-uri", uri, "--name", "mine") == 0
    capsys.readouterr()
    client = mlflow.MlflowClient(uri)
    (run,) = client.search_runs([e.experiment_id for e in client.search_experiments()])
    assert run.info.status == "FINISHED"
    history = pd.read_parquet(client.download_artifacts(run.info.run_id, "data/history.parquet", str(files)))
    pairs = sorted(zip(history["user"].astype(str).str.removeprefix("u"), history["item"], strict=True))
    assert pairs == [("1", 30), ("2", 20)]


def test_run_whose_logging_fails_is_killed_and_named_where_it_is_compared(files, uri, capsys, monkeypatch):
    import mlflow

    from evalplugin.tracking.write import lists

    def broken(*args: object) -> None:
        raise RuntimeError("no picture can be drawn")

    monkeypatch.setattr(lists, "_pictures", broken)
    assert score(*asked(), "--log", "--tracking-uri", uri, "--name", 'it\'s "mine"') == 1
    assert "no picture can be drawn" in capsys.readouterr().err
    client = mlflow.MlflowClient(uri)
    runs = client.search_runs([e.experiment_id for e in client.search_experiments()])
    assert [(run.info.run_name, run.info.status) for run in runs] == [('it\'s "mine"', "KILLED")]
    assert main(["compare", 'it\'s "mine"', "--tracking-uri", uri]) == 2
    assert 'it\'s "mine" (KILLED)' in capsys.readouterr().err


def test_compare_suggests_only_names_of_runs_with_results(files, uri, capsys):
    import mlflow

    store = ["--tracking-uri", uri]
    for name in ("mine", "mines"):
        assert score(*asked(), "--log", *store, "--name", name) == 0
    client = mlflow.MlflowClient(uri)
    runs = client.search_runs([e.experiment_id for e in client.search_experiments()])
    (killed,) = [run for run in runs if run.info.run_name == "mines"]
    client.set_terminated(killed.info.run_id, "KILLED")
    capsys.readouterr()
    assert main(["compare", "minesx", *store]) == 2
    assert "did you mean 'mine'?" in capsys.readouterr().err
    assert main(["compare", "mines", *store]) == 2
    assert "left out, as they have no results: mines (KILLED)" in capsys.readouterr().err


def test_what_the_catalogue_is_without_train_data_is_told(files, capsys):
    assert score(*asked(), "-m", "coverage@1", "-m", "gini@1") == 0
    assert capsys.readouterr().err == (
        "warning: coverage@1, gini@1: the catalogue is the items of the lists and the truth alone, so these "
        "differ from those of a bake-off on the same lists; --train names the train data\n"
    )
    assert score(*asked(), "-m", "coverage@1", "--train", "train.csv") == 0
    assert capsys.readouterr().err == ""


def test_a_metric_without_an_honest_interval_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    from evalplugin.cli.show import show_scores

    rows = [ScoreRow("ndcg@10", 0.2, 0.1, 0.3, 50, 0), ScoreRow("coverage@10", 0.2, nan, nan, 50, 0)]
    show_scores(rows, title="a")
    assert "no interval" not in capsys.readouterr().out
    show_scores([ScoreRow("dcg@10", 0.0, nan, nan, 50, 0)], title="a")
    assert "–: no interval, as hardly any user differs from all others" in capsys.readouterr().out


# ---- truth in the formats of other libraries


PAIRS = {
    "truth.txt": ("adjacency", "1 20\n2 30\n4 10\n"),
    "truth.tsv": ("triples", "1\t20\t4\n2\t30\t2.5\n4\t10\t1\n"),
    "truth.inter": ("auto", "user_id:token\titem_id:token\trating:float\n1\t20\t4\n2\t30\t2.5\n4\t10\t1\n"),
}


@pytest.mark.parametrize("name", PAIRS)
def test_truth_and_train_data_are_read_in_the_formats_of_pairs(files, capsys, name):
    form, text = PAIRS[name]
    Path(name).write_text(text)
    options = ["--truth-format", form, "--train", name, "-m", "coverage@1"]
    if name.endswith(".inter"):
        options += ["--truth-user", "user_id", "--truth-item", "item_id"]
    assert score(*asked(truth=name), *options, "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {metric: found[metric]["mean"] for metric in EXPECTED} == EXPECTED


def test_matrices_are_read_as_truth(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = (TRUTH["rating"], (TRUTH["user"], TRUTH["item"]))
    sparse.save_npz("truth.npz", sparse.coo_array(cells, shape=(5, 31)))
    assert score(*asked(truth="truth.npz"), "--threshold", "2", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["hit@1"]["mean"] == (0 + 1) / 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--truth", "a.txt"],
            "a.txt: the format is not known by the name: .* triples, npz (--truth-format)",
        ),
        (["--truth", "a.inter"], "a.inter: no user column 'user'; did you mean 'user_id'?"),
        (
            ["--truth", "a.txt", "--truth-format", "recbole"],
            "a.txt: line 1: '1 20 30' has no type: a header of",
        ),
        (
            ["--truth", "truth.csv", "--truth-format", "adjacency"],
            "truth.csv: line 1 is 'user,item,rating', with",
        ),
        (
            ["--truth", "truth.csv", "--lists", "a.inter"],
            "a.inter: the format is not known .* (--input-format)",
        ),
        (
            ["--truth", "truth.csv", "--pool", "truth.csv"],
            "truth.csv: 3 of 5 listed items are not in the pool",
        ),
        (["--truth", "truth.csv", "--pool", "none.csv"], "file not found: none.csv"),
        (["--truth", "truth.csv", "--pool", "truth.csv", "--as", "recbole"], "--pool does not go with it"),
    ],
)
def test_wrong_formats_and_pools_are_refused_with_the_remedy(files, capsys, options, message):
    Path("a.txt").write_text("1 20 30\n")
    Path("a.inter").write_text("user_id:token\titem_id:token\n1\t20\n")
    assert score("--lists", "lists.csv", "-m", "recall@10", *options) == 2
    assert re.search(re.escape(message).replace(r"\.\*", ".*"), capsys.readouterr().err)


def test_lists_of_several_systems_are_compared_in_every_format(files, capsys):
    LISTS.assign(rank=[2, 1, 2, 1, 1]).to_parquet("other.parquet", index=False)
    assert score(*asked(), "--lists", "other.parquet") == 0
    out, err = capsys.readouterr()
    assert "rr, model against model" in out
    assert "hit@1, model against model" in out
    assert [line for line in out.splitlines() if re.match(r" [12]   (lists|other) ", line)]
    assert "lists: 1 user of the truth without a list" in err
    assert score(*asked(), "--lists", "other.parquet", "--format", "csv") == 0
    table = pd.read_csv(io.StringIO(capsys.readouterr().out))
    means = table.drop_duplicates(["metric", "model"]).set_index(["metric", "model"])["mean"]
    for name, lists in (("lists", "lists.csv"), ("other", "other.parquet")):
        expected = evalplugin.score(lists, "truth.csv", ["rr", "hit@1"])
        assert {metric: means[metric, name] for metric in expected.means} == pytest.approx(expected.means)
    (pair,) = table[(table["metric"] == "rr") & table["difference"].notna()].to_dict("records")
    first, second = (evalplugin.score(f, "truth.csv", ["rr"]) for f in ("lists.csv", "other.parquet"))
    gain = (first.per_user["rr"] - second.per_user["rr"]).dropna()
    assert (abs(pair["difference"]), pair["pairs"]) == (pytest.approx(abs(gain.mean())), len(gain))
    assert len(gain) == 3
    assert score(*asked(), "--lists", "other.parquet", "--format", "json") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["metrics"] == ["rr", "hit@1"]


def test_systems_are_named_by_their_files_or_else_by_their_paths(files, capsys):
    both = ["lists.csv", "lists.parquet"]
    for lists, names in ((["lists.csv", "folder"], ["lists", "folder"]), (both, both)):
        given = [word for file in lists[1:] for word in ("--lists", file)]
        assert score(*asked(lists[0]), *given, "--format", "csv") == 0
        assert set(pd.read_csv(io.StringIO(capsys.readouterr().out))["model"]) == set(names)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "scores.csv"], "--out: for the lists of one system; name one --lists"),
        (["--log", "--name", "both"], "--log, --name: for the lists of one system; name one --lists"),
        (["--as", "recbole"], "--as: for the lists of one system; name one --lists"),
        (["-m", "coverage@1"], "coverage@1: a number for all lists together has no differences by user"),
        (["--lists", "./lists.csv", "--lists", "lists.csv"], "--lists: lists.csv is given twice"),
    ],
)
def test_what_is_of_one_system_is_refused_for_several(files, options, message, capsys):
    assert score(*asked(), "--lists", "lists.parquet", *options) == 2
    assert message in capsys.readouterr().err
    assert not Path("scores.csv").exists()
