"""`schedule --once --if-changed`, notification and `mlflow run`, as other schedulers and CI use them."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import mlflow
import mlflow.projects
import pytest
import yaml
from bakeoffs import forget_plugins
from mlflow import MlflowClient
from mlflow.entities import Run
from samples import TINY, write_config

from evalplugin.bakeoff.description import fingerprints_of, inputs_of
from evalplugin.cli import main
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import prepare
from evalplugin.features.config import load

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("no_drawing", "store")

TASTE = """
from dataclasses import dataclass
import numpy as np
import evalplugin

@evalplugin.model("constant")
@dataclass
class Constant:
    def fit(self, train, rng):
        self.n_items = train.n_items

    def scores(self, users):
        return np.tile(np.arange(self.n_items, dtype=float), (len(users), 1))
"""

BROKEN = """
from dataclasses import dataclass
import evalplugin

@evalplugin.model("boom")
@dataclass
class Boom:
    def fit(self, train, rng):
        raise ValueError("no")

    def scores(self, users): ...
"""


# Writes what it is told to a file.
TELL = [sys.executable, "-c", "import sys; open('told.json', 'w').write(sys.stdin.read())"]


def ratings(users: int = 30) -> None:
    rows = [f"{u},{(u * 7 + i * 3) % 20},{1 + (u + i) % 5},{i}" for u in range(users) for i in range(8)]
    Path("ratings.csv").write_text("user,item,rating,time\n" + "\n".join(rows) + "\n")


def config(**changes: Any) -> str:
    if not Path("ratings.csv").exists():
        ratings()
    shop = {"name": "shop", "type": "csv", "path": "ratings.csv", "rating": "rating", "timestamp": "time"}
    data = {
        "experiment": "nightly", "datasets": [shop], "split": {"type": "last_n", "n": 2},
        "recommend": {"n": 5}, "metrics": ["ndcg@5"], "models": ["random"],
        "schedule": {"cron": "0 3 * * *"}, "tracking": {"board": False},
    }  # fmt: skip
    return write_config(data | changes, "nightly.yaml")


def runs() -> list[Run]:
    client = MlflowClient(f"sqlite:///{Path.cwd()}/mlflow.db")
    return list(client.search_runs([e.experiment_id for e in client.search_experiments()]))


def statuses() -> dict[str, str]:
    found = [(run.data.tags, run.info.status) for run in runs()]
    return {tags.get("evalplugin.model") or tags["evalplugin.role"]: status for tags, status in found}


def once(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["schedule", "--once", "--if-changed", *options, "nightly.yaml"])
    return code, capsys.readouterr().out


def test_outcomes_are_never_added_to_the_config(capsys: pytest.CaptureFixture[str]) -> None:
    config()
    before = Path("nightly.yaml").read_text()
    assert main(["schedule", "--once", "--outcome", "nightly.yaml", "nightly.yaml"]) == 2
    assert "is not a file of outcomes, which has lines of JSON: name another" in capsys.readouterr().err
    assert Path("nightly.yaml").read_text() == before
    text = json.dumps(yaml.safe_load(Path("nightly.yaml").read_text()))
    Path("nightly.yaml").write_text(text)
    Path("link.yaml").symlink_to("nightly.yaml")
    assert once(capsys, "--outcome", "link.yaml")[0] == 2
    assert Path("nightly.yaml").read_text() == text


def test_if_changed_skips_unchanged_bake_off(capsys: pytest.CaptureFixture[str]) -> None:
    config()
    code, out = once(capsys, "--outcome", "outcome.jsonl")
    assert code == 0
    assert "shop, last_n" in out

    config(schedule={"cron": "0 4 * * *"}, notify={"command": ["false"]}, tracking={"board": True})
    code, out = once(capsys, "--outcome", "outcome.jsonl")
    assert code == 0
    assert out.startswith("nightly.yaml: nothing to do: data, config and code are those of the bake-off ")
    assert out.count("\n") == 1
    first, second = map(json.loads, Path("outcome.jsonl").read_text().splitlines())
    assert (first["outcome"], second["outcome"]) == ("done", "unchanged")
    assert first["bakeoff"] == second["bakeoff"]


def people(age: str) -> None:
    """Write how old the first user is."""
    Path("people.csv").write_text(f"user,age\n1,{age}\n2,middle-aged\n")


def went_in(**changes: Any) -> dict[str, str]:
    """Return what went into a bake-off, by a process that starts with it."""
    forget_plugins()
    age = {"type": "attribute", "file": "people.csv", "column": "age"}
    plain: dict[str, Any] = {"plugins": ["taste.py"], "models": ["random", "constant"], "segments": [age]}
    checked = load(Path(config(**plain | changes)))
    asked = fingerprints_of(checked, prepare(checked, None, Observer()), experiment="x", tracking="y")
    return inputs_of(checked, asked)


def test_what_goes_into_a_bake_off_is_its_data_its_config_and_its_code() -> None:
    Path("taste.py").write_text(TASTE)
    people("old")
    before = went_in()
    assert went_in(experiment="another", workers=2, schedule=None) == before
    for part, change in (
        ("config", lambda: went_in(compare={"baseline": "random"})),
        ("config", lambda: went_in(seed=1)),
        ("data", lambda: (ratings(31), went_in())[1]),
        ("data", lambda: (ratings(), people("young"), went_in())[2]),
        ("code", lambda: (people("old"), Path("taste.py").write_text(TASTE + "\n"), went_in())[2]),
    ):
        after = change()
        assert {key for key in before if after[key] != before[key]} == {part}


def test_failed_notification_does_not_fail_bake_off(capsys: pytest.CaptureFixture[str]) -> None:
    config(notify={"command": TELL})
    assert main(["run", "nightly.yaml"]) == 0
    told = json.loads(Path("told.json").read_text())
    assert (told["outcome"], told["standings"][0]["models"][0]["model"]) == ("done", "random")
    capsys.readouterr()
    config(notify={"command": ["./nobody"], "on": ["done"]})
    assert main(["run", "nightly.yaml"]) == 0
    assert "(./nobody) was not told of the bake-off: it cannot be started" in (capsys.readouterr().err)


def test_unset_notification_variables_warn_before_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    config(notify={"url": "https://h/${HOOK_THAT_IS_NOT_SET}"})
    assert main(["run", "nightly.yaml"]) == 0
    err = capsys.readouterr().err
    assert err.startswith("warning: notify: nobody will be told, as no value is set for HOOK_THAT_IS_NOT_SET")
    assert err.endswith("environment variable not set: HOOK_THAT_IS_NOT_SET\n")


def test_failed_bake_off_is_notified(capsys: pytest.CaptureFixture[str]) -> None:
    config(notify={"command": TELL, "on": ["failure"]})
    Path("ratings.csv").write_text("user,item\n1,2\n")
    assert main(["run", "nightly.yaml"]) == 2
    told = json.loads(Path("told.json").read_text())
    assert told["outcome"] == "failure"
    assert "no rating column" in told["error"]


def outcomes() -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path("outcome.jsonl").read_text().splitlines()]


def test_invalid_config_is_notified(capsys: pytest.CaptureFixture[str]) -> None:
    notify = {"command": TELL, "on": ["failure"]}
    shutil.copy(config(notify=notify), "twin.yaml")
    other = Path(config(experiment="other")).read_text()
    Path("other.yaml").write_text(other.replace("ratings.csv", "r.csv"))
    Path("r.csv").write_text("user,item,rating,time\n1,2,3,4\n")
    Path("torn.yaml").write_text("experiment: {")
    Path("ratings.csv").unlink()
    files = ["twin.yaml", "other.yaml", "torn.yaml"]
    command = ["schedule", "--once", "--outcome", "outcome.jsonl", *files]
    assert main([*command, "--set", "experiment=tonight"]) == 2
    err = capsys.readouterr().err
    assert "twin.yaml:3:9: datasets[0].path: " in err
    told = outcomes()
    assert {one["outcome"] for one in told} == {"failure"}
    experiments = [(one["config"], one["experiment"]) for one in told]
    assert experiments == [("twin.yaml", "tonight"), ("other.yaml", "tonight"), ("torn.yaml", None)]
    for one in told:
        assert err.endswith(f"{one['error']}\n")
    assert json.loads(Path("told.json").read_text()) == told[0]


def test_invalid_config_is_notified_by_its_valid_section(capsys: pytest.CaptureFixture[str]) -> None:
    config(models=["rnadom"], notify={"command": ["./nobody"]})
    assert main(["run", "--dry-run", "nightly.yaml"]) == 2
    (mistake,) = capsys.readouterr().err.splitlines()
    assert "did you mean 'random'?" in mistake
    assert main(["run", "nightly.yaml"]) == 2
    warning = "warning: notify.command (./nobody) was not told of the bake-off: it cannot be started"
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["notify ...", f"{warning}: No such file or directory", mistake]
    # What is set is read as far as it can be.
    assert main(["run", "--set", "models.9=svd", "--set", "notify.on=[promote]", "nightly.yaml"]) == 2
    assert "./nobody" not in capsys.readouterr().err
    config(models=["rnadom"], notify={"command": ["./nobody"], "on": ["failed"]})
    assert main(["run", "nightly.yaml"]) == 2
    assert "./nobody" not in capsys.readouterr().err


def test_failed_model_is_notified_for_each_dataset(capsys: pytest.CaptureFixture[str]) -> None:
    Path("boom.py").write_text(BROKEN)
    datasets = [{**TINY, "name": name} for name in ("one", "two")]
    config(plugins=["boom.py"], models=["random", "boom"], datasets=datasets)
    assert main(["run", "--outcome", "outcome.jsonl", "nightly.yaml"]) == 1
    assert outcomes()[0]["failed"] == [
        {"dataset": name, "split": "last_n", "model": "boom", "error": "boom.py:9: ValueError: no"}
        for name in ("one", "two")
    ]
    assert "boom failed: boom.py:9: ValueError: no" in capsys.readouterr().out


def test_unwritable_outcome_file_is_refused_before_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    config()
    for command in (["run"], ["schedule", "--once"]):
        assert main([*command, "--outcome", "none/o.jsonl", "nightly.yaml"]) == 2
        assert "Invalid value for '--outcome': none/o.jsonl: no such folder: none" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that is always full")
def test_unwritable_outcome_file_does_not_fail_bake_off(capsys: pytest.CaptureFixture[str]) -> None:
    config()
    assert main(["run", "--outcome", "/dev/full", "nightly.yaml"]) == 0
    out, err = capsys.readouterr()
    assert "shop, last_n" in out
    assert "warning: --outcome /dev/full could not be written: No space left on device\n" in err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["nightly.yaml", "./nightly.yaml"], "yaml: is given twice; give each config once"),
        (["nightly.yaml", "link.yaml"], "yaml: is given twice; give each config once"),
        (["plain.yaml"], "plain.yaml: has no schedule; add one, such as schedule: {cron"),
        (["--outcome", "x", "nightly.yaml"], "--outcome goes with --once"),
    ],
)
def test_what_cannot_be_scheduled_is_refused(argv: list[str], message: str, capsys) -> None:
    shutil.copy(config(schedule=None), "plain.yaml")
    Path("link.yaml").symlink_to(config())
    assert main(["schedule", *argv]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_mlflow_run_takes_a_config(store, monkeypatch, capfd):
    shutil.copy(ROOT / "MLproject", "MLproject")
    Path("configs").mkdir()
    shutil.move(config(), "configs/nightly.yaml")
    shutil.move("ratings.csv", "configs/ratings.csv")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{store}")
    # What `mlflow run . -P config=configs/nightly.yaml --env-manager local` calls.
    mlflow.set_tracking_uri(f"sqlite:///{store}")
    config_file = {"config": "configs/nightly.yaml"}
    mlflow.projects.run(".", parameters=config_file, env_manager="local", experiment_name="nightly")
    assert "shop, last_n" in capfd.readouterr().out
    # The run that `mlflow run` has started is the summary's.
    assert statuses() == {"random": "FINISHED", "summary": "FINISHED"}
