"""Results are computed again when a file, folder, URI or variable that decided them has changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from bakeoffs import fits, forget_plugins, interrupt_bakeoff, run_bakeoff
from mlflow import MlflowClient
from samples import RecordingObserver, small_config, write_config

from evalplugin.base.errors import DataError
from evalplugin.cli import main
from evalplugin.execution.executor import sequential_executor
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import jobs_of, load_cached, prepare, results_of
from evalplugin.execution.store import Store
from evalplugin.execution.store.steps import StepCache
from evalplugin.features.config import load
from evalplugin.workspace import Mode

pytestmark = pytest.mark.usefixtures("no_drawing", "store")

# A model whose scores are the numbers that its code reads.
VENDOR = """
import json, os, pathlib
from dataclasses import dataclass, field
from typing import Any
import numpy as np
import evalplugin

{top}

@evalplugin.model("vendor")
@dataclass
class Vendor:
    file: str = "none"
    options: dict[str, Any] = field(default_factory=dict)

    def fit(self, train, rng):
        with open("fits.txt", "a") as log:
            log.write("fit\\n")
        values = np.resize(np.asarray({read}, dtype=float), train.n_items)
        self.values = np.tile(values, (train.n_users, 1))

    def scores(self, users):
        return self.values[users]
"""


def plugin(read: str, top: str = "") -> str:
    Path("vendor.py").write_text(VENDOR.format(read=read, top=top))
    return "vendor.py"


def vendor(
    read: str, top: str = "", *, params: dict[str, Any] | None = None, **changes: Any
) -> dict[str, Any]:
    model = {"name": "vendor", "type": "vendor", "params": params or {}, **changes.pop("model", {})}
    data = small_config(plugins=[plugin(read, top)], models=["random", model], segments=[], **changes)
    write_config(data)
    return data


def compute(*, same_process: bool = False, resolve: Callable[[str], str] | None = None) -> list[str]:
    """Run the tasks of shop.yaml with the cache in a process that starts with it; return the lines reported."""
    if not same_process:
        forget_plugins()
    said: list[str] = []
    config = load(Path("shop.yaml"))
    store = Store(Path(".evalplugin").absolute(), report=said.append)
    cache = StepCache(store, **({} if resolve is None else {"resolve": resolve}))
    jobs = jobs_of(config, prepare(config, None, Observer()))
    load_cached(jobs, cache)
    for _, result in results_of(jobs, sequential_executor(Observer()), cache):
        assert result.error is None, result.error
    return said


def write_numbers(file: str, seed: int) -> None:
    Path(file).parent.mkdir(exist_ok=True, parents=True)
    Path(file).write_text(json.dumps(np.random.default_rng(seed).random(80).tolist()))


READ = "json.loads(pathlib.Path(self.file).read_text())"


def run(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str, str]:
    forget_plugins()
    capsys.readouterr()
    code = main(["run", "shop.yaml", *options])
    shown = capsys.readouterr()
    return code, shown.out, shown.err.replace(f"{Path.cwd()}/", "")


def logged() -> list[dict[str, Any]]:
    """The tags, the data for programs and the mean of vendor's runs, the oldest first."""
    client = MlflowClient(f"sqlite:///{Path.cwd()}/mlflow.db")
    (home,) = [e.experiment_id for e in client.search_experiments() if e.name == "shop"]
    found = client.search_runs([home], "tags.`evalplugin.model` = 'vendor'", order_by=["start_time ASC"])
    return [
        {
            "ndcg": one.data.metrics.get("ndcg_at_10"),
            **one.data.tags,
            **json.loads(one.data.tags["evalplugin.provenance"]),
        }
        for one in found
    ]


def test_changed_file_changes_the_numbers_and_counts_for_if_changed(capsys):
    write_numbers("v.json", 1)
    vendor(READ, params={"file": "v.json"})
    assert run(capsys)[0] == 0
    code, out, _ = run(capsys, "--if-changed")
    assert (code, out.split(":")[1]) == (0, " nothing to do")
    write_numbers("v.json", 2)
    code, out, err = run(capsys, "--if-changed")
    assert code == 0
    assert "v.json has changed since the bake-off " in err
    first, second = logged()
    assert first["ndcg"] != second["ndcg"]
    assert first["inputs"] == second["inputs"]  # hashes of config, data and code
    assert fits() == 2


@pytest.mark.parametrize(
    ("params", "changes"),
    [
        ({"options": {"weights": ["none", "w.npy"]}}, "w.npy"),
        ({"options": {"w.npy": 0.5}}, "w.npy"),
        ({"options": {"folder": "weights"}}, "weights/sub/w.npy"),
        ({"options": {"pattern": "weights/*.npy"}}, "weights/w.npy"),
        ({"options": {"pattern": "weights/*.npy"}}, "weights/new.npy"),
        ({"file": "conf/only.npy"}, "conf/only.npy"),
    ],
    ids=["in a list", "as a key", "in a folder", "by a pattern", "a new file", "relative to the config"],
)
def test_file_that_a_parameter_names_is_an_input(params: dict[str, Any], changes: str) -> None:
    for file in ("w.npy", "weights/w.npy", "weights/sub/w.npy", "conf/only.npy"):
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_bytes(b"old")
    vendor("[1.0]", params=params)
    assert [compute(), compute(), fits()] == [[], [], 1]
    Path(changes).write_bytes(b"new")
    assert [compute(), compute(), fits()] == [[], [], 2]
    Path(changes).touch()  # the same content at another time
    assert [compute(), fits()] == [[], 2]


def test_plugin_that_was_edited_is_run_again_in_the_same_process() -> None:
    top = "def run_by(text):\n    pathlib.Path('code.txt').write_text(text)\n    return [1.0]"
    vendor("run_by('old')", top)
    compute()
    plugin("run_by('newer')", top)
    assert compute(same_process=True) == []
    assert Path("code.txt").read_text() == "newer"
    assert fits() == 2


def test_result_of_an_input_that_changes_while_it_is_used_is_not_kept() -> None:
    vendor(
        "[pathlib.Path('out/log').write_text(str(os.times().elapsed)), 1.0]",
        params={"options": {"log": "out"}},
    )
    Path("out").mkdir()
    (line,) = compute()
    assert line.startswith("store: cannot keep the scores of vendor: ")
    assert line.endswith(f": {Path.cwd()}/out/ has changed meanwhile")
    assert len(compute()) == 1
    assert fits() == 2


def go_on(mode: Mode) -> str:
    """Run shop.yaml; return the lines reported, joined."""
    forget_plugins()
    observer = RecordingObserver()
    run_bakeoff(load(Path("shop.yaml")), mode=mode, observer=observer)
    return " ".join(observer.lines).replace(f"{Path.cwd()}/", "")


def interrupt(mode: Mode) -> None:
    forget_plugins()
    interrupt_bakeoff(load(Path("shop.yaml")), mode=mode)


def test_resume_does_not_continue_a_bake_off_whose_file_has_changed() -> None:
    write_numbers("v.json", 1)
    vendor(READ, params={"file": "v.json"})
    interrupt("run")
    write_numbers("v.json", 2)
    assert "depends on v.json, which has changed since; this is a new one" in go_on("resume")
    first, second = logged()
    assert first["evalplugin.bakeoff"] != second["evalplugin.bakeoff"]
    assert first["ndcg"] != second["ndcg"]
    assert fits() == 2


def test_resume_computes_a_failed_model_again_whose_input_has_changed(monkeypatch):
    monkeypatch.setenv("NUMBERS", "[")
    vendor("[1.0, *json.loads(os.environ['NUMBERS'])]", model={"inputs": [{"env": "NUMBERS"}]})
    interrupt("run")
    interrupt("resume")  # nothing has changed: the failure stays
    assert fits() == 1
    monkeypatch.setenv("NUMBERS", "[1, 2, 3]")
    assert "depends on env:NUMBERS, which has changed since; this is a new one" in go_on("resume")
    assert fits() == 2
    first, second = logged()
    assert first["ndcg"] is None
    assert second["ndcg"] is not None


def test_declared_inputs_count(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("weights").mkdir()
    Path("weights/w.bin").write_bytes(b"old")
    Path("one.bin").write_bytes(b"old")
    monkeypatch.setenv("FEATURES", "v1")
    versions = {"models:/shop@champion": "version 1", "https://example.org/w": '"etag 1"'}
    declared = ["weights", "one.bin", {"env": "FEATURES"}, *versions]
    vendor("[1.0]", model={"inputs": declared})
    changes: list[Callable[[], object]] = [
        lambda: None,
        lambda: Path("weights/w.bin").write_bytes(b"new"),
        lambda: Path("one.bin").write_bytes(b"new"),
        lambda: monkeypatch.setenv("FEATURES", "v2"),
        lambda: versions.update({"models:/shop@champion": "version 2"}),
        lambda: versions.update({"https://example.org/w": '"etag 2"'}),
    ]
    for number, change in enumerate(changes):
        change()
        for _ in range(2):
            assert compute(resolve=versions.__getitem__) == []
        assert fits() == number + 1


def test_declared_inputs_of_which_nothing_can_be_known_are_refused(capsys):
    vendor("[1.0]", model={"inputs": ["models:/nothing@champion"]})
    code, _, err = run(capsys)
    assert code == 2
    assert "inputs of the model vendor: models:/nothing@champion: it cannot be known whether its" in err
    assert fits() == 0


def test_validate_notes_a_plugin_that_opens_files_of_a_model_without_inputs(capsys):
    write_numbers("v.json", 1)
    note = "the model vendor names none: results are not computed again when they change, unless"
    for model, noted in (
        ({}, True), ({"inputs": ["v.json"]}, False), ({"params": {"file": "v.json"}}, False)
    ):  # fmt: skip
        vendor(READ, model=model)
        assert main(["validate", "shop.yaml"]) == 0
        assert (note in capsys.readouterr().err) is noted


def test_results_are_not_reused_where_a_uri_of_a_parameter_cannot_be_compared() -> None:
    def unknown(uri: str) -> str:
        raise DataError(f"{uri}: it cannot be known whether its content has changed: no answer")

    vendor("[1.0]", params={"file": "https://example.org/x"})
    for _ in range(2):
        assert compute(resolve=unknown) == [
            "warning: https://example.org/x: it cannot be known whether its content has changed: no answer; "
            "what depends on it is computed again"
        ]
    assert fits() == 2


def test_file_that_a_parameter_of_a_split_names_is_an_input() -> None:
    write_numbers("cut.json", 1)
    Path("cut.py").write_text(SPLIT)
    vendor("[1.0]", split={"type": "cut", "file": "cut.json"})
    config = yaml.safe_load(Path("shop.yaml").read_text())
    config["plugins"].append("cut.py")
    write_config(config)
    compute()
    compute()
    assert fits() == 1
    write_numbers("cut.json", 2)
    compute()
    assert fits() == 2


SPLIT = """
import json
from dataclasses import dataclass
import numpy as np
import evalplugin
from evalplugin.data import Split

@evalplugin.split("cut")
@dataclass
class Cut:
    file: str

    def split(self, data, rng):
        with open(self.file) as file:
            numbers = json.load(file)
        held_out = np.resize(numbers, len(data)) < 0.3
        return [Split(data.select(~held_out), data.select(held_out))]
"""
