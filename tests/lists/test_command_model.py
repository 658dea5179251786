from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from processes import is_running, wait_for
from samples import write_config

import evalplugin
from evalplugin.base.errors import ConfigError, DataError, ModelError
from evalplugin.base.processes import run_program, with_output
from evalplugin.cli import main
from evalplugin.data import Candidates, Interactions
from evalplugin.features.config import load
from evalplugin.models import MODELS, recommend
from evalplugin.models.base import ListRequest
from evalplugin.testing import check_recommender
from evalplugin.testing.model import checkerboard

EXAMPLES = Path(__file__).parents[2] / "examples"
POPULAR = """
import sys
import pyarrow as pa, pyarrow.compute as pc, pyarrow.parquet as pq
train, users, candidates, out, n = sys.argv[1:]
counts = pq.read_table(train)["item"].value_counts().to_pylist()
best = [c["values"] for c in sorted(counts, key=lambda c: (-c["counts"], c["values"]))]
ids = pq.read_table(users)["user"].to_pylist()
pq.write_table(pa.table({"user": [u for u in ids for _ in best], "item": best * len(ids),
                         "rank": list(range(1, len(best) + 1)) * len(ids)}), out)
"""
PYTHON = sys.executable
pytestmark = [
    pytest.mark.usefixtures("no_drawing"),
    pytest.mark.filterwarnings("ignore:.*(left out. |lists with fewer than|without a list)"),
]
CONFIG: dict[str, Any] = {
    "experiment": "shop",
    "datasets": [{"type": "synthetic", "n_users": 60, "n_items": 50, "n_interactions": 1500}],
    "split": {"type": "last_n", "n": 3},
    "relevance": {"threshold": 4},
    "recommend": {"n": 10, "ties": "id"},  # as the programs order equal scores
    "metrics": ["ndcg@10", "recall@10"],
    "tracking": {"uri": "sqlite:///mlflow.db"},
}
# Writes the first items for every user, in any number of folds.
FIRST = (
    'awk -F, -v n={n} \'NR == FNR { item[FNR] = $1; next } FNR == 1 { print "user,item,rank"; next } '
    '{ for (i = 1; i <= n; i++) print $1 "," item[i + 1] "," i }\' {candidates} {users} > {out}'
)


def command(*words: str, name: str = "theirs", **params: Any) -> dict[str, Any]:
    return {"name": name, "type": "command", "params": {"command": [*words], **params}}


def shell(script: str, *, name: str = "theirs", **params: Any) -> dict[str, Any]:
    return command("sh", "-c", script, name=name, format="csv", **params)


def test_a_program_of_another_process_makes_the_lists_of_popularity(store: Path) -> None:
    Path("popular.py").write_text(POPULAR)
    theirs = command(PYTHON, "popular.py", "{train}", "{users}", "{candidates}", "{out}", "{n}")
    result = evalplugin.run({**CONFIG, "models": ["popularity", theirs]})
    assert_same_lists(*result.models)


@pytest.mark.parametrize(("candidates", "text"), [("unseen", True), ("all", False)])
def test_a_shell_script_makes_the_lists_of_popularity(candidates, text, store, tmp_path):
    user, item = np.divmod(np.random.default_rng(0).permutation(60 * 50)[:1500], 50)
    frame = pd.DataFrame({"user": user, "item": item // 2 * 2, "rating": 5, "timestamp": np.arange(1500)})
    frame = frame.drop_duplicates(["user", "item"])
    if text:
        frame["item"] = [f"item {code:03}" for code in frame["item"]]
    frame.to_csv("ratings.csv", index=False)
    shutil.copy(EXAMPLES / "programs" / "popular.sh", "popular.sh")
    dataset = {"type": "csv", "path": "ratings.csv", "rating": "rating", "timestamp": "timestamp"}
    config = {
        **CONFIG,
        "datasets": [dataset],
        "recommend": {"n": 10, "candidates": candidates, "ties": "id"},
        "models": [
            "popularity",
            command("sh", "popular.sh", "{train}", "{users}", "{candidates}", "{out}", "{n}", format="csv"),
        ],
    }
    if candidates == "all":
        config["models"][1]["params"]["command"].append("all")
    assert_same_lists(*evalplugin.run(config).models)


def assert_same_lists(ours: Any, theirs: Any) -> None:
    assert theirs.error is None
    assert ours.per_user.means == theirs.per_user.means
    assert ours.top_n.select(["user", "item", "rank"]) == theirs.top_n.select(["user", "item", "rank"])


def run(words: list[str], *, n: int = 5, data: Interactions | None = None, **params: Any):
    data = data or checkerboard()
    model = MODELS.create("command", {"command": words, **params})
    model.fit(data, np.random.default_rng(0))
    users = np.arange(data.n_users, dtype=np.int32)
    lists = recommend(model, ListRequest(data, users, n, Candidates("unseen", excluded=data.rows)))
    return lists, model.notes


def written(text: str) -> list[str]:
    """Return a command that writes a CSV file with this text."""
    return ["sh", "-c", 'printf "$1" > "$2"', "sh", text, "{out}"]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "echo reading; echo 'no model' >&2; exit 3",
            r"^its output ends with\n  reading\n  no model\nthe command sh -c .* failed with exit code 3: no model$",
        ),
        ("exit 1", "failed with exit code 1; it printed nothing$"),
        ("kill -9 $$", "was ended by SIGKILL, which systems send when memory runs out; it printed nothing$"),
        ("kill -TERM $$", "was ended by SIGTERM; it printed nothing$"),
        ("echo done", r"^the command sh -c .* ended without writing {out}: done$"),
        ("printf '10 %%\\r20 %%\\rout of luck\\n'; exit 1", "  10 %\n  20 %\n  out of luck\nthe command"),
    ],
)
def test_a_program_that_fails_is_an_error_with_the_end_of_its_output(script: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        run(["sh", "-c", f"{script} # {{out}}"])


@pytest.mark.parametrize(
    ("form", "text", "message"),
    [
        ("csv", "", "{out} is empty: it has no line with the names of its columns"),
        (
            "csv",
            "user,thing,rank\\n100,1000,1\\n",
            "{out}: no item column 'item'; columns: user, thing, rank",
        ),
        (
            "csv",
            "user,item,rank\\nann,1000,1\\n",
            "user ids are text in the lists .* but integers in the data",
        ),
        (
            "csv",
            "user,item,rank\\n100,1000,0\\n",
            "lists: the ranks of user 100 must be",
        ),
        ("parquet", "user,item,rank\\n", "{out}: cannot be read: it is not Parquet but text$"),
    ],
)
def test_bad_lists_are_an_error_without_the_temporary_path(form: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=f"^the command sh -c .*: {message}") as caught:
        run(written(text), format=form)
    assert "evalplugin-" not in str(caught.value)


def test_a_program_may_write_a_folder_of_files() -> None:
    parts = (
        'mkdir "$1"; for u in 100 101; do printf "user,item,score\\n$u,1060,1\\n" > "$1/part-$u.csv"; done'
    )
    lists, _ = run(["sh", "-c", f'{parts}; touch "$1/_SUCCESS"', "sh", "{out}"], format="csv")
    assert lists.item[:3, 0].tolist() == [30, 30, -1]


def test_text_ids_that_look_like_integers_stay_text() -> None:
    frame = pd.DataFrame({"user": ["1", "1", "2"], "item": ["7", "8,9", "8,9"]})
    script = 'head -3 "$1" > "$2"; printf "user,item,rank\\n2,7,1\\n" > "$3"; cp "$1" seen.csv'
    data = Interactions.from_frame(frame)
    lists, _ = run(["sh", "-c", script, "sh", "{train}", "/dev/null", "{out}"], data=data, format="csv")
    assert lists.item[:, 0].tolist() == [-1, 0]
    assert Path("seen.csv").read_text() == 'user,item,rating\n1,7,1.0\n1,"8,9",1.0\n2,"8,9",1.0\n'


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_program_gets_times_to_their_resolution(form: str) -> None:
    data = checkerboard()
    fraction = (np.arange(len(data), dtype=np.int32) * 7) % 1000
    data = replace(data, fraction=fraction, ticks_per_second=1000)
    script = 'cp "$1" train.copy; printf "user,item,rank\\n100,1,1\\n" > "$2"'
    if form == "parquet":
        script = 'cp "$1" train.copy; cp "$3" "$2"'
        pd.DataFrame({"user": [100], "item": [1], "rank": [1]}).to_parquet("lists.parquet")
    run(["sh", "-c", script, "sh", "{train}", "{out}", "lists.parquet"], data=data, format=form)
    read = pd.read_parquet("train.copy") if form == "parquet" else pd.read_csv("train.copy")
    again = Interactions.from_frame(
        read.assign(timestamp=pd.to_datetime(read["timestamp"], format="ISO8601")), timestamp="timestamp"
    )
    assert again.time.tolist() == data.time.tolist()


def test_braces_of_the_programs_own_are_written_twice() -> None:
    with pytest.raises(ModelError, match=r"without writing {out}: {n} is 5 /.*"):
        run(["echo", "{{n}} is {n}", "{out}"])


@pytest.mark.slow
def test_a_program_gets_fold_seed_and_length(store: Path) -> None:
    script = f'echo "{{fold}} {{seed}} {{n}}" >> asked; {FIRST}'
    config = {**CONFIG, "split": {"type": "kfold", "k": 2}, "models": [shell(script)]}
    assert evalplugin.run(config).models[0].error is None
    folds, seeds, lengths = zip(
        *(line.split() for line in Path("asked").read_text().splitlines()), strict=True
    )
    assert folds == ("1", "2")
    assert lengths == ("10", "10")
    assert len(set(seeds)) == 2
    assert evalplugin.run({**config, "seed": 5}).models[0].error is None
    assert seeds[0] not in Path("asked").read_text().splitlines()[2]


def test_a_program_that_the_system_refuses_is_an_error_of_the_model() -> None:
    Path("run.sh").write_text("no first line")
    Path("run.sh").chmod(0o755)
    with pytest.raises(ModelError, match=r"^the command \./run.sh '{out}' cannot be started: Exec format"):
        run(["./run.sh", "{out}"])


@pytest.mark.parametrize(
    ("params", "place", "message"),
    [
        (
            "{command: [no-such-program, '{out}']}", "9:24: models[1].params.command[0]",
            "there is no program 'no-such-program', relative to the config or on PATH",
        ),
        (
            "{command: [./run.sh, '{out}']}", "9:24: models[1].params.command[0]",
            "there is no program './run.sh', relative to the config or on PATH",
        ),
        (
            "{command: [sh, '{outt}', '{out}']}", "9:28: models[1].params.command[1]",
            "unknown placeholder {outt}; did you mean 'out'?; allowed: {train}, {users}, {history}, {candidates}, "
            "{out}, {n}, {seed}, {fold}, and {{outt}} for {outt} itself",
        ),
        ("{command: [sh, -c, ls]}", "9:23: models[1].params.command", "{out} is missing, the file that"),
        ("{command: []}", "9:23: models[1].params.command", "must not be empty"),
        (
            "{command: [sh, '{out}'], version: [no-such-program]}", "9:48: models[1].params.version[0]",
            "there is no program 'no-such-program'",
        ),
        ("{command: [sh, '{out}'], version: []}", "models[1].params.version", "must not be empty"),
        ("{command: [sh, '{out}'], format: cvs}", "models[1].params.format", "did you mean 'csv'?"),
    ],
)  # fmt: skip
def test_mistakes_are_found_at_validation(params: str, place: str, message: str) -> None:
    Path("c.yaml").write_text(
        "experiment: e\ndatasets: [blobs]\nsplit: {type: last_n}\nmetrics: [ndcg@10]\nmodels:\n  - popularity\n"
        f"  - name: c\n    type: command\n    params: {params}\n"
    )
    with pytest.raises(ConfigError) as caught:
        load(Path("c.yaml"))
    assert f"{place}: " in str(caught.value)
    assert message in str(caught.value)
    assert len(caught.value.lines) == 1


@pytest.mark.parametrize("output", ["yes $1", "cat /dev/zero", "tr -d '\\n' < /dev/urandom"])
def test_any_output_is_read_and_only_its_end_is_kept(output: str) -> None:
    script = f"{output} | head -c 30000000; {output} | head -c 30000000 >&2; exit 1"
    with pytest.raises(ModelError, match="failed with exit code 1: ") as caught:
        run(["sh", "-c", script, "sh", "x" * 100, "{out}"])
    assert len(str(caught.value)) < 15 * 2600


def test_little_memory_is_taken_by_much_output() -> None:
    code, output = run_program(["sh", "-c", "head -c 100000000 /dev/zero"], Path())
    assert (code, len(output)) == (0, 64 * 2**10)


def test_programs_in_the_background_end_with_the_one_that_started_them() -> None:
    code, output = run_program(["sh", "-c", "sleep 600 & echo $!"], Path())
    assert code == 0
    wait_for(lambda: not is_running(int(output)))


def test_the_last_lines_of_an_output_are_shown_and_the_last_one_in_the_message() -> None:
    assert with_output("it failed", "\n \n") == "it failed; it printed nothing"
    assert with_output("it failed", "\n why \n") == "it failed: why"
    last = "".join(f"\n  {i}" for i in range(84, 99))
    output = "".join(f"{i}\n" for i in range(99))
    assert with_output("it failed", output) == f"its output ends with{last}\nit failed: 98"


SLEEPS = "sleep 600 & echo $! >> pids; echo $$ >> pids; echo waiting; sleep 600 # {out}"


def pids() -> list[int]:
    return [int(line) for line in Path("pids").read_text().split()]


@pytest.mark.slow
def test_a_program_and_its_children_end_at_the_time_limit_of_the_task(store: Path) -> None:
    config = {**CONFIG, "limits": {"seconds": 15}, "models": ["popularity", shell(SLEEPS)]}
    popularity, theirs = evalplugin.run(config).models
    assert popularity.error is None
    assert theirs.error.endswith("the task took more than 15 s, its limit (limits.seconds)")
    wait_for(lambda: not any(map(is_running, pids())))
    assert len(pids()) == 2


@pytest.mark.slow
def test_a_program_that_needs_more_memory_than_the_limit_fails(store: Path) -> None:
    code = "import sys; x = b'x' * (4 << 30)"
    config = {
        **CONFIG,
        "limits": {"memory": "2GB"},
        "models": [command(PYTHON, "-c", code, "{out}"), "popularity"],
    }
    theirs, popularity = evalplugin.run(config).models
    assert popularity.error is None
    assert "code 1 (each of its processes may allocate 2.0 GB: limits.memory): MemoryError" in theirs.error


def test_a_program_ends_that_has_just_started_when_it_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    start = subprocess.Popen

    def interrupted(*args: Any, **options: Any) -> Any:
        process = start(*args, **options)
        wait_for(lambda: Path("pids").exists() and len(pids()) == 2)
        signal.raise_signal(signal.SIGINT)
        return process

    monkeypatch.setattr("subprocess.Popen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_program(["sh", "-c", SLEEPS], Path())
    wait_for(lambda: not any(map(is_running, pids())))


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_program_and_its_children_end_with_an_interrupted_bake_off(number, workers, store):
    write_config({**CONFIG, "workers": workers, "models": [shell(SLEEPS)]}, "c.yaml")
    process = subprocess.Popen(
        [PYTHON, "-m", "evalplugin", "run", "c.yaml"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(lambda: Path("pids").exists() and len(pids()) == 2)
        process.send_signal(number)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.wait()
    wait_for(lambda: not any(map(is_running, pids())))


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_each_failure_is_one_error_and_the_others_finish(workers: int, store: Path) -> None:
    scripts = {"crash": "exit 7 # {out}", "silent": "true # {out}", "fine": FIRST}
    models = [shell(script, name=name) for name, script in scripts.items()]
    crash, silent, fine = evalplugin.run({**CONFIG, "workers": workers, "models": models}).models
    assert crash.error.splitlines()[-1].endswith("failed with exit code 7; it printed nothing")
    assert silent.error.splitlines()[-1].endswith("ended without writing {out}; it printed nothing")
    assert fine.error is None


COUNTED = f"echo x >> asked; {FIRST}"


def times_asked() -> int:
    return len(Path("asked").read_text().splitlines())


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_second_bake_off_runs_no_program(workers: int, store: Path) -> None:
    config = {
        **CONFIG, "workers": workers, "split": {"type": "kfold", "k": 2},
        "models": ["popularity", shell(COUNTED, version="1")],
    }  # fmt: skip
    first = evalplugin.run(config).models[1]
    assert times_asked() == 2
    again = evalplugin.run(config).models[1]
    assert times_asked() == 2
    assert again.per_user.means == first.per_user.means
    assert again.notes == first.notes


@pytest.mark.parametrize(
    "how",
    [
        "script", "version command", "program",
        *(pytest.param(how, marks=pytest.mark.slow) for how in ("folder", "version file", "version text")),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_lists_are_made_again_when_code_or_version_changes(how, store, capsys):
    folder = Path("elsewhere")
    (folder / "code").mkdir(parents=True)
    script = folder / "code" / "run.sh"
    positional = {"{n}": "$1", "{candidates}": "$2", "{users}": "$3", "{out}": "$4"}
    script.write_text(
        f"echo x >> ../asked\n{re.sub('{(?:n|candidates|users|out)}', lambda m: positional[m[0]], FIRST)}"
    )
    (folder / "version.txt").write_text("1")
    words = ["sh", "code/run.sh"] if how == "script" else ["sh", "-c", '. "$0/run.sh"', "code"]
    if how == "program":
        script.write_text(f"#!/bin/sh\n{script.read_text()}")
        script.chmod(0o755)
        words = ["code/run.sh"]
    versions: dict[str, Any] = {
        "version file": "version.txt", "version text": "1", "version command": ["cat", "./version.txt"]
    }  # fmt: skip
    if how in versions:
        shutil.move(script, script := Path.cwd() / "run.sh")
        words = ["sh", "-c", '. "$0.sh"', str(Path.cwd() / "run")]

    def bake(version: Any) -> None:
        given = [*words, "{n}", "{candidates}", "{users}", "{out}"]
        models = [command(*given, format="csv", version=version)]
        write_config({**CONFIG, "models": models}, folder / "c.yaml")
        assert main(["run", str(folder / "c.yaml")]) == 0

    version = versions.get(how, "" if how == "program" else "1")
    bake(version)
    assert times_asked() == 1
    bake(version)
    assert times_asked() == 1
    if how == "version text":
        version = "2"
    elif how in versions:
        (folder / "version.txt").write_text("2")
    else:
        script.write_text(f"{script.read_text()}\n# changed")
    bake(version)
    assert times_asked() == 2
    assert ("depends on 1 file (" in capsys.readouterr().err) == (how == "program")


def test_a_program_of_which_not_all_is_known_is_run_again(store, capsys):
    write_config({**CONFIG, "models": [shell(COUNTED)]}, "c.yaml")
    for times in (1, 2):
        assert main(["run", "c.yaml"]) == 0
        assert times_asked() == times
        assert "sh reads: give the model a `version`" in capsys.readouterr().err
    assert main(["run", "c.yaml", "--set", "models.0.params.version=v2"]) == 0
    assert main(["run", "c.yaml", "--set", "models.0.params.version=v2"]) == 0
    assert times_asked() == 3


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (["sh", "-c", "echo no git >&2; exit 4"], "failed with exit code 4: no git"),
        (["true"], "the command true printed nothing to stdout, which would be the version"),
    ],
)  # fmt: skip
def test_a_version_that_cannot_be_told_ends_the_bake_off_before_it_begins(version, message, store):
    with pytest.raises(DataError) as caught:
        evalplugin.run({**CONFIG, "models": [shell(COUNTED, version=version)]})
    assert str(caught.value).startswith("inputs of the model theirs: the command ")
    assert message in str(caught.value)
    assert not Path("asked").exists()


BOARD = """
import sys
import pyarrow as pa, pyarrow.parquet as pq
train, users, out = sys.argv[1:]
ids, items = pq.read_table(users)["user"].to_pylist(), list(range(1000, 1062, 2))
rows = [(u, i, r) for u in ids for r, i in enumerate(sorted(items, key=lambda i: ((i - 1000) // 2 + u) % 2), 1)]
user, item, rank = zip(*rows)
pq.write_table(pa.table({"user": user, "item": item, "rank": rank}), out)
"""


@pytest.mark.slow
def test_the_contract_holds() -> None:
    Path("board.py").write_text(BOARD)
    check_recommender("command", command=[PYTHON, "board.py", "{train}", "{users}", "{out}"])
