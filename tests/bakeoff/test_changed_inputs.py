"""Results are computed again when a file, folder, URI or variable that decided them has changed."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from bakeoffs import run_bakeoff
from mlflow import MlflowClient
from samples import RecordingObserver, small_config, write_config

from evalplugin.base.errors import DataError
from evalplugin.cli import main
from evalplugin.config import load
from evalplugin.execution.engines import Needs
from evalplugin.execution.engines.local import Processes
from evalplugin.execution.executor import sequential_executor, task_executor
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import jobs_of, load_cached, prepare, results_of
from evalplugin.execution.store import Store
from evalplugin.execution.store.steps import StepCache
from evalplugin.execution.worker import Limits
from evalplugin.workspace import Mode

pytestmark = pytest.mark.usefixtures("no_drawing", "store")

# A model whose scores are the numbers that its code reads.
VENDOR = """
import functools, glob, json, os, pathlib
from dataclasses import dataclass, field
from typing import Any
import numpy as np
import evalplugin

{top}

def opened(file):
    with open(file) as text:
        import io
        return io.StringIO(text.read())

def low_level(file):
    number = os.open(file, os.O_RDONLY)
    try:
        return os.read(number, 10**6)
    finally:
        os.close(number)

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


def fits() -> int:
    """How often the model was fitted so far."""
    return len(Path("fits.txt").read_text().splitlines()) if Path("fits.txt").exists() else 0


def forget_plugins() -> None:
    # Those of this test: what is registered for a whole module of tests still needs its own.
    names = [name for name in sys.modules if name.startswith("evalplugin_plugin_")]
    for name in names:
        if Path(str(sys.modules[name].__file__)).is_relative_to(Path.cwd().resolve()):
            del sys.modules[name]


def compute(
    *, workers: bool = False, same_process: bool = False, resolve: Callable[[str], str] | None = None
) -> list[str]:
    """Run the tasks of shop.yaml with the cache in a process that starts with it; return the lines reported."""
    if not same_process:
        forget_plugins()
    said: list[str] = []
    config = load(Path("shop.yaml"))
    store = Store(Path(".evalplugin").absolute(), report=said.append)
    cache = StepCache(store, **({} if resolve is None else {"resolve": resolve}))
    jobs = jobs_of(config, prepare(config, None, Observer(), cache))
    load_cached(jobs, cache)
    with store.scratch() as folder, ExitStack() as opened:
        execute = sequential_executor(Observer())
        if workers:
            needs = Needs(workers=1, limits=Limits(), plugins=config.plugins, folder=folder)
            execute = task_executor(opened.enter_context(closing(Processes(needs))), Observer())
        for _, result in results_of(jobs, execute, cache):
            assert result.error is None, result.error
    return said


def write_numbers(file: str, seed: int) -> None:
    Path(file).parent.mkdir(exist_ok=True, parents=True)
    Path(file).write_text(json.dumps(np.random.default_rng(seed).random(80).tolist()))


def why(lines: list[str]) -> list[str]:
    """What has changed, by the lines that a run reports."""
    pattern = "store: vendor is computed again: (.*) has changed since"
    return [
        found[1].replace(f"{Path.cwd()}/", "") for line in lines if (found := re.fullmatch(pattern, line))
    ]


FIXED = "json.loads(pathlib.Path('v.json').read_text())"


@pytest.mark.parametrize("workers", [False, True])
def test_file_that_a_model_opens_is_compared_before_reuse(workers: bool) -> None:
    write_numbers("v.json", 1)
    vendor(FIXED)
    assert compute(workers=workers) == []
    assert compute(workers=workers) == []
    assert fits() == 1
    write_numbers("v.json", 2)
    assert why(compute(workers=workers)) == ["v.json"]
    assert fits() == 2
    Path("v.json").touch()  # the same content at another time
    assert compute(workers=workers) == []
    assert fits() == 2


READ = "json.loads(pathlib.Path(self.file).read_text())"


def run(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str, str]:
    forget_plugins()
    capsys.readouterr()
    code = main(["run", "shop.yaml", *options])
    shown = capsys.readouterr()
    return code, shown.out, shown.err.replace(f"{Path.cwd()}/", "")


def logged() -> list[dict[str, Any]]:
    """The tags and the mean of vendor's runs, the oldest first."""
    client = MlflowClient(f"sqlite:///{Path.cwd()}/mlflow.db")
    (home,) = [e.experiment_id for e in client.search_experiments() if e.name == "shop"]
    found = client.search_runs([home], "tags.`evalplugin.model` = 'vendor'", order_by=["start_time ASC"])
    return [{"ndcg": one.data.metrics.get("ndcg_at_10"), **one.data.tags} for one in found]


def test_changed_file_changes_the_numbers_and_counts_for_if_changed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_numbers("v.json", 1)
    vendor(READ, params={"file": "v.json"})
    assert run(capsys)[0] == 0
    code, out, _ = run(capsys, "--if-changed")
    assert (code, out.split(":")[1]) == (0, " nothing to do")
    write_numbers("v.json", 2)
    code, out, err = run(capsys, "--if-changed")
    assert code == 0
    assert "v.json has changed since the bake-off " in err
    assert "store: vendor is computed again: v.json has changed since" in err
    first, second = logged()
    assert first["ndcg"] != second["ndcg"]
    assert first["evalplugin.inputs"] == second["evalplugin.inputs"]  # hashes of config, data and code
    assert fits() == 2


def test_file_that_a_plugin_reads_while_it_is_loaded_counts() -> None:
    write_numbers("top.json", 1)
    vendor("NUMBERS", "NUMBERS = json.loads(pathlib.Path('top.json').read_text())")
    assert compute() == []
    assert compute(workers=True) == []
    write_numbers("top.json", 2)
    assert why(compute()) == ["top.json"]
    write_numbers("top.json", 3)
    assert why(compute(workers=True)) == ["top.json"]
    assert compute() == []
    assert fits() == 3


def test_file_that_an_earlier_model_has_loaded_for_all_counts() -> None:
    write_numbers("v.json", 1)
    read = "load()"
    top = "@functools.cache\ndef load():\n    return json.loads(pathlib.Path('v.json').read_text())"
    vendor(read, top, model={"grid": {"file": ["one", "two"]}})
    compute()
    write_numbers("v.json", 2)
    assert sum("v.json has changed since" in line for line in compute()) == 2
    assert fits() == 4


@pytest.mark.parametrize(
    ("params", "changes", "expected"),
    [
        ({"options": {"weights": ["none", "w.npy"]}}, "w.npy", "w.npy"),
        ({"options": {"w.npy": 0.5}}, "w.npy", "w.npy"),
        ({"options": {"folder": "weights"}}, "weights/sub/w.npy", "weights/"),
        ({"options": {"pattern": "weights/*.npy"}}, "weights/w.npy", "weights/w.npy"),
        ({"options": {"pattern": "weights/*.npy"}}, "weights/new.npy", "glob:weights/*.npy"),
        ({"file": "conf/only.npy"}, "conf/only.npy", "conf/only.npy"),
    ],
    ids=["in a list", "as a key", "in a folder", "by a pattern", "a new file", "relative to the config"],
)
def test_file_that_a_parameter_names_counts_though_no_one_sees_it_read(
    params: dict[str, Any], changes: str, expected: str
) -> None:
    for file in ("w.npy", "weights/w.npy", "weights/sub/w.npy", "conf/only.npy"):
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_bytes(b"old")
    vendor("[1.0]", params=params)
    assert compute() == []
    assert compute() == []
    Path(changes).write_bytes(b"new")
    assert why(compute()) == [expected]
    assert compute() == []
    assert fits() == 2


def test_plugin_that_was_edited_is_run_again_in_the_same_process() -> None:
    top = "def run_by(text):\n    pathlib.Path('code.txt').write_text(text)\n    return [1.0]"
    vendor("run_by('old')", top)
    compute()
    plugin("run_by('newer')", top)
    assert compute(same_process=True) == []
    assert Path("code.txt").read_text() == "newer"
    assert fits() == 2


def test_folder_that_a_model_writes_to_is_no_input() -> None:
    vendor("[os.makedirs('out', exist_ok=True), pathlib.Path(f'out/{{os.getpid()}}').write_text('x')][1:]",
           params={"options": {"log": "out"}})  # fmt: skip
    Path("out").mkdir()
    assert compute() == []
    assert compute() == []
    Path("out/more").write_text("x")
    assert compute() == []
    assert fits() == 1


def go_on(mode: Mode, **options: Any) -> str:
    """Run shop.yaml; return the lines reported, joined."""
    forget_plugins()
    observer = RecordingObserver()
    run_bakeoff(load(Path("shop.yaml")), mode=mode, **{"observer": observer, **options})
    return " ".join(observer.lines).replace(f"{Path.cwd()}/", "")


class Interrupting(Observer):
    """Interrupts a bake-off when all models are computed, as Ctrl-C does."""

    @contextmanager
    def progress(self, label: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        if label == "compare":
            raise KeyboardInterrupt
        yield lambda done: None


def interrupt(mode: Mode, **options: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        go_on(mode, observer=Interrupting(), **options)


def test_resume_does_not_continue_a_bake_off_whose_file_has_changed() -> None:
    write_numbers("v.json", 1)
    vendor(READ, params={"file": "v.json"})
    interrupt("run")
    write_numbers("v.json", 2)
    assert "has used v.json, which has changed since; this is a new one" in go_on("resume")
    first, second = logged()
    assert first["evalplugin.bakeoff"] != second["evalplugin.bakeoff"]
    assert first["ndcg"] != second["ndcg"]
    assert fits() == 2


FAILING = "[1.0, *json.loads(os.environ['NUMB' + 'ERS'])]"  # no constant name, which would be seen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("read", "changes", "workers"),
    [
        (FIXED, {}, None),
        (FIXED, {}, 2),
        ("load(self.file)", {"params": {"file": "v.npy"}}, None),
        (FAILING, {"model": {"inputs": [{"env": "NUMBERS"}]}}, None),
    ],
    ids=["opened", "opened by a worker", "named by a parameter", "declared"],
)
def test_resume_computes_a_failed_model_again_whose_input_has_changed(
    read: str, changes: dict[str, Any], workers: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def provide(content: str) -> None:
        Path("v.json").write_text(content)
        Path("v.npy").write_text(content)
        monkeypatch.setenv("NUMBERS", content)

    provide("[")
    # Not seen when it is opened: by another process.
    top = "import subprocess\ndef load(file):\n    return json.loads(subprocess.check_output(['cat', file]))"
    vendor(read, top, **changes)
    interrupt("run", workers=workers)
    interrupt("resume", workers=workers)  # nothing has changed: the failure stays
    assert fits() == 1
    provide("[1, 2, 3]")
    said = go_on("resume", workers=workers)
    assert re.search("has used (v.json|v.npy|env:NUMBERS), which has changed since; this is a new one", said)
    assert fits() == 2
    first, second = logged()
    assert first["ndcg"] is None
    assert second["ndcg"] is not None


@pytest.mark.slow
def test_resume_computes_a_model_again_of_which_is_not_known_what_it_has_read() -> None:
    vendor("os.path.exists('go') or os._exit(3)", limits={"seconds": 300})
    interrupt("run")
    interrupt("sync")  # which computes nothing
    assert fits() == 1
    Path("go").touch()
    said = go_on("resume")
    assert "a failed model, vendor, of which it is not known what it has read; this is a new one" in said
    assert "is given up" in said
    assert "--resume continues" not in said
    assert fits() == 2
    assert [one["ndcg"] is None for one in logged()] == [True, False]


def test_declared_inputs_count(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("weights").mkdir()
    Path("weights/w.bin").write_bytes(b"old")
    Path("one.bin").write_bytes(b"old")
    monkeypatch.setenv("FEATURES", "v1")
    versions = {"models:/shop@champion": "version 1", "https://example.org/w": '"etag 1"'}
    declared = ["weights", "one.bin", {"env": "FEATURES"}, *versions]
    vendor("[1.0]", model={"inputs": declared})
    assert compute(resolve=versions.__getitem__) == []
    assert compute(resolve=versions.__getitem__) == []
    assert fits() == 1
    changes: dict[str, Callable[[], object]] = {
        "weights/": lambda: Path("weights/w.bin").write_bytes(b"new"),
        "one.bin": lambda: Path("one.bin").write_bytes(b"new"),
        "env:FEATURES": lambda: monkeypatch.setenv("FEATURES", "v2"),
        "models:/shop@champion": lambda: versions.update({"models:/shop@champion": "version 2"}),
        "https://example.org/w": lambda: versions.update({"https://example.org/w": '"etag 2"'}),
    }
    for name, change in changes.items():
        change()
        assert why(compute(resolve=versions.__getitem__)) == [name]
        assert compute(resolve=versions.__getitem__) == []
    assert fits() == 1 + len(changes)


def test_declared_inputs_of_which_nothing_can_be_known_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    vendor("[1.0]", model={"inputs": ["models:/nothing@champion"]})
    code, _, err = run(capsys)
    assert code == 2
    assert "inputs of the model vendor: models:/nothing@champion: it cannot be known whether its" in err
    assert fits() == 0


def test_plugin_with_readers_whose_files_cannot_be_recorded_is_one_warning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_numbers("v.json", 1)
    vendor("[1.0]", "def read(): import pyarrow, h5py", model={"grid": {"file": ["one", "two"]}})
    code, _, err = run(capsys)
    assert (code, err.count("cannot be recorded")) == (0, 1)
    assert (
        "warning: vendor.py uses h5py, pyarrow: files that are read with it cannot be recorded, and a change of "
        "them would not be noticed; name them under inputs: of the model\n"
    ) in err
    for named in ({"inputs": ["v.json"]}, {"params": {"options": {"numbers": "v.json"}}}):
        vendor("[1.0]", "import pyarrow", model=named)
        assert "cannot be recorded" not in run(capsys)[2]


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


def test_split_of_a_plugin_that_reads_a_file_is_computed_again() -> None:
    write_numbers("cut.json", 1)
    Path("cut.py").write_text(SPLIT)
    vendor("[1.0]", split={"type": "cut"})
    config = yaml.safe_load(Path("shop.yaml").read_text())
    config["plugins"].append("cut.py")
    write_config(config)
    compute()
    assert compute() == []
    write_numbers("cut.json", 2)
    assert f"store: the split cut is computed again: {Path.cwd()}/cut.json has changed since" in compute()


SPLIT = """
import json
from dataclasses import dataclass
import numpy as np
import evalplugin
from evalplugin.data import Split

@evalplugin.split("cut")
@dataclass
class Cut:
    def split(self, data, rng):
        with open("cut.json") as file:
            numbers = json.load(file)
        held_out = np.resize(numbers, len(data)) < 0.3
        return [Split(data.select(~held_out), data.select(held_out))]
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [True, False])
def test_a_module_that_is_loaded_only_by_the_fit_is_an_input(
    workers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = f"found_late_{workers}".lower()
    Path("elsewhere").mkdir()
    Path(f"elsewhere/{name}.py").write_text("VALUES = [1, 2]\n")
    top = (
        "def late():\n"
        "    import sys\n"
        "    sys.path.insert(0, os.path.abspath('elsewhere'))\n"
        f"    import {name}\n"
        f"    return {name}.VALUES\n"
    )
    vendor("late()", top)
    compute(workers=workers)
    sys.modules.pop(name, None)
    assert compute(workers=workers) == []
    assert fits() == 1
    Path(f"elsewhere/{name}.py").write_text("VALUES = [2, 1, 3]\n")
    sys.path[:] = [path for path in sys.path if Path(path).name != "elsewhere"]  # as in another process
    (line,) = compute(workers=workers)
    assert f"{name}.py has changed since" in line
    assert fits() == 2
