"""Bake-offs on data that comes in parts: cache, workers, tuning, registration, lists, programs and the command line."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from bakeoffs import fits, run_bakeoff
from features.resume.test_resume import assert_same_end, kill_and_resume, logged
from mlflow import MlflowClient
from samples import RecordingObserver, write_config
from tuning_samples import DIAL, dial_config

from evalplugin.base.errors import DataError
from evalplugin.cli import main
from evalplugin.data import LoadContext, in_one_piece
from evalplugin.features.base import Bakeoff
from evalplugin.features.config import load

pytestmark = pytest.mark.usefixtures("no_drawing", "store")

N_USERS, N_ITEMS = 60, 25
PROGRAM = """
import shutil, sys
from pathlib import Path
train, out = sys.argv[1:]
Path("rows.txt").write_text(str(len(Path(train).read_text().splitlines()) - 1))
shutil.copy("lists.csv", out)
"""


@pytest.fixture(autouse=True)
def files() -> None:
    """Files of train, validation and test data, without a pair in two of them; and all of it in folds."""
    rng = np.random.default_rng(0)
    rows = [
        (user, int(item), ("train", "validation", "test")[max(0, place - 7)], place % 3)
        for user in range(N_USERS)
        for place, item in enumerate(rng.permutation(N_ITEMS)[:10])
    ]
    frame = pd.DataFrame(rows, columns=["user", "item", "part", "fold"])
    for part, group in frame.groupby("part"):
        group[["user", "item"]].to_csv(f"{part}.csv", index=False)
    frame.to_csv("all.csv", index=False)


def config(*, validation: bool = True, **changes: Any) -> dict[str, Any]:
    parts = ["train", *["validation"] * validation, "test"]
    path = {part: f"{part}.csv" for part in parts}
    made = {"datasets": [{"name": "mine", "type": "csv", "path": path}], "split": "given"} | changes
    return {key: value for key, value in dial_config(**made).items() if value is not None}


def bake(config: dict[str, Any], **options: Any) -> tuple[Bakeoff, list[str]]:
    observer = RecordingObserver()
    return run_bakeoff(load(config), observer=observer, **options), observer.lines


def means(outcome: Bakeoff) -> dict[str, Any]:
    return {m.model: None if m.per_user is None else m.per_user.means for m in outcome.models}


def test_models_are_tuned_on_the_validation_part_and_fitted_on_it_too() -> None:
    outcome, _ = bake(config())
    dial = next(model for model in outcome.models if model.model == "dial")
    assert dial.tuning is not None
    assert len(dial.data.train) == 9 * N_USERS
    assert len(dial.data.test) == N_USERS
    before = fits()
    again, lines = bake(config())
    assert fits() == before
    assert means(again) == means(outcome)
    assert any("10 of them from the store" in line for line in lines)


def test_validation_data_can_be_left_out_of_the_fit() -> None:
    split = {"type": "given", "fit_on_validation": False}
    outcome, _ = bake(config(split=split, models=["popularity"], tune=None))
    (popularity,) = outcome.models
    assert len(popularity.data.train) == 8 * N_USERS
    assert any("60 validation interactions are for tuning alone" in note for note in popularity.data.notes)


def test_tuning_without_a_validation_part_names_the_split_to_set() -> None:
    with pytest.raises(DataError) as error:
        bake(config(validation=False))
    for part in ("tune: ", "mine, given, fold 1", "the data has no validation part", "tune.split"):
        assert part in str(error.value)
    outcome, _ = bake(config(validation=False, tune={"budget": {"trials": 3}, "split": "holdout"}))
    assert all(model.error is None for model in outcome.models)


STOPS: dict[str, tuple[str | None, int, int]] = {
    "whole": (None, 0, 1),
    "tuning": ("after write lists", 4, 1),
    "fitting": ("begin fit late", 1, 1),
}


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="forks")
def test_a_tuned_bake_off_killed_in_tuning_or_in_a_later_fit_resumes_to_the_same_tables(tmp_path, store):
    template = tmp_path / "killed/template"
    template.mkdir(parents=True)
    late = {"name": "late", "type": "dial", "params": {"x": 1.0}}
    changed = config(models=["popularity", DIAL, late], metrics=["ndcg@10", "coverage@10"])
    write_config(changed, template / "config.yaml")
    for file in ("dial.py", *(f"{part}.csv" for part in ("train", "validation", "test"))):
        shutil.copy(file, template)
    codes = kill_and_resume(tmp_path / "killed", STOPS, store)
    whole = tmp_path / "killed/whole"
    for point in ("tuning", "fitting"):
        place = tmp_path / "killed" / point
        assert codes[point] == [-signal.SIGKILL, 0], point
        assert_same_end(place, whole, dict.fromkeys(("popularity", "dial", "late", "summary"), "FINISHED"))
        # What was killed is what was continued, and no fit that had ended is repeated.
        assert logged(place)["summary"]["bakeoff"] == json.loads((place / "bakeoffs.json").read_text())[0]
        fitted, again = (len((folder / "fits.txt").read_text().splitlines()) for folder in (whole, place))
        assert again == fitted


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_folds_of_a_column_are_read_from_the_store(workers: int) -> None:
    data = {"name": "mine", "type": "csv", "path": "all.csv", "part": "fold"}
    changed = config(datasets=[data], models=["popularity", "random"], tune=None, seeds=2)
    first, _ = bake(changed, workers=workers)
    again, lines = bake(changed, workers=workers)
    assert all(model.error is None for model in first.models)
    assert first.models[0].data.n_folds == 3
    assert means(again) == means(first)
    assert not any(line.startswith("fit ") for line in lines)


def test_a_winner_is_registered_that_learned_from_all_parts() -> None:
    models = ["random", {"name": "best", "type": "neighbours.item"}]
    changes = {"compare": {"baseline": "random"}, "gate": {"min_users": 10}, "register": {"name": "shop"}}
    # All users have the same two items in the test and the train part, so that neighbours find them.
    for part, items in {"train": [1, 2, 3], "validation": [4], "test": [5]}.items():
        rows = "".join(f"{user},{item + 5 * (user % 2)}\n" for user in range(N_USERS) for item in items)
        Path(f"{part}.csv").write_text("user,item\n" + rows + "90,1\n90,2\n90,4\n90,5\n" * (part == "train"))
    outcome, lines = bake(config(models=models, tune=None, **changes))
    assert all(model.error is None for model in outcome.models)
    assert any("best is registered: version 1 of shop" in line for line in lines)
    version = MlflowClient().get_model_version("shop", "1")
    learned = in_one_piece(load(config()).datasets[0].load(LoadContext(base=Path.cwd())))
    assert len(learned) == 5 * N_USERS + 4
    assert learned.digest in version.tags.values()


def test_lists_programs_and_segments_know_the_parts() -> None:
    lists = pd.DataFrame(
        [(user, item, rank + 1) for user in range(N_USERS) for rank, item in enumerate(range(5))],
        columns=["user", "item", "rank"],
    )
    lists.to_csv("lists.csv", index=False)
    Path("program.py").write_text(PROGRAM)
    theirs = {"name": "theirs", "type": "lists", "params": {"path": "lists.csv"}}
    command = [sys.executable, "program.py", "{train}", "{out}"]
    params = {"command": command, "version": "1", "format": "csv"}
    program = {"name": "program", "type": "command", "params": params}
    countries = pd.DataFrame({"user": range(N_USERS), "country": ["FR", "DE"] * (N_USERS // 2)})
    countries.to_csv("users.csv", index=False)
    data = config()["datasets"][0] | {"users": {"path": "users.csv"}}
    outcome, _ = bake(
        config(
            datasets=[data],
            models=["popularity", theirs, program],
            segments=[{"name": "country", "type": "attribute", "column": "country"}],
            recommend={"n": 5, "candidates": "all"},
            metrics=["ndcg@5"],
            tune=None,
        )
    )
    assert [model.error for model in outcome.models] == [None, None, None]
    assert int(Path("rows.txt").read_text()) == 9 * N_USERS  # of the train and the validation part
    assert any(segment.labels for segment in outcome.models[0].data.segments)


def test_checks_of_times_say_why_they_are_silent() -> None:
    _, lines = bake(config(models=["popularity"], tune=None))
    assert sum("mine: the data has no times, so that EV101" in line for line in lines) == 1


def test_checks_look_at_the_times_of_given_parts() -> None:
    for number, part in enumerate(("test", "validation", "train")):  # the train part is the latest
        frame = pd.read_csv(f"{part}.csv")
        frame.assign(time=np.arange(len(frame)) + 10**6 * number).to_csv(f"{part}.csv", index=False)
    data = config()["datasets"][0] | {"timestamp": "time"}
    outcome, lines = bake(config(datasets=[data], models=["popularity"], tune=None))
    assert "EV101" in {finding.code for finding in outcome.models[0].data.findings}
    assert not any("so that EV101" in line for line in lines)


def test_commands_describe_the_parts(capsys: pytest.CaptureFixture[str]) -> None:
    file = write_config(config(models=["popularity"], tune=None))
    assert main(["validate", "--data", file]) == 0
    assert main(["run", "--dry-run", file]) == 0
    capsys.readouterr()
    assert main(["data", "--format", "json", file]) == 0
    assert json.loads(capsys.readouterr().out)
    assert main(["data", file]) == 0
    shown = capsys.readouterr().out
    assert "600 interactions of 60 users" in shown
    assert not mlflow.search_experiments(filter_string="name = 'tuned'")
