"""The action for GitHub: its scripts are run by bash, as a runner would, but for pip and for the actions it uses."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
CONFIG = """\
experiment: ci
datasets: [{name: toy, type: synthetic, n_users: 60, n_items: 80, n_interactions: 1500}]
split: {type: last_n, n: 3}
relevance: {threshold: 4}
metrics: [ndcg@10]
models: [random, popularity]
compare: {baseline: random}
gate: {min_users: 10}
"""
# What the runner sets up: a Python on the PATH, here one that writes down what pip is asked for.
PYTHON = f"""\
#!/bin/bash
if [ "$2" = pip ]; then printf '%s\\n' "$@" > pip.txt; else exec {sys.executable} "$@"; fi
"""


@dataclass
class Done:
    codes: dict[str, int]  # of each script that was run
    printed: str
    summary: str
    outputs: str
    folder: Path  # of temporary files


def run_action(folder: Path, **given: str) -> Done:
    """Run the scripts of the action in the working directory; after a failure, those alone that say so."""
    for name in ("bin", "temp"):
        (folder / name).mkdir()
    (folder / "bin" / "python").write_text(PYTHON)
    (folder / "bin" / "python").chmod(0o755)
    inputs = {name: given.get(name, each.get("default")) for name, each in ACTION["inputs"].items()}
    files = {name: folder / name.lower() for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    for file in files.values():
        file.touch()
    path = [str(folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        **{name: str(file) for name, file in files.items()},
        "GITHUB_ACTION_PATH": str(ROOT),
        "RUNNER_TEMP": str(folder / "temp"),
        "PATH": os.pathsep.join(path),
    }
    codes, printed = {}, ""
    for step in ACTION["runs"]["steps"]:
        if "run" in step and ("if" in step or not any(codes.values())):
            assert step["shell"] == "bash"
            (folder / "script").write_text(step["run"])
            command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(folder / "script")]
            own = {name: filled(text, inputs) for name, text in step.get("env", {}).items()}
            done = subprocess.run(
                command, env=environment | own, capture_output=True, text=True, check=False, encoding="utf-8"
            )
            codes[step["name"]] = done.returncode
            printed += done.stdout + done.stderr
    texts = [file.read_text(encoding="utf-8") for file in files.values()]
    return Done(codes, printed, *texts, folder / "temp" / "bake-off")


def filled(text: str, inputs: dict[str, Any]) -> str:
    """Return a text with the inputs in place of their expressions."""
    return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda name: inputs[name[1]], text)


def test_github_would_take_the_action() -> None:
    command = [
        "-m",
        "check_jsonschema",
        "-q",
        "--builtin-schema",
        "vendor.github-actions",
        ROOT / "action.yml",
    ]
    subprocess.run([sys.executable, *command], check=True)
    text = (ROOT / "action.yml").read_text()
    assert set(re.findall(r"\$\{\{ inputs\.([\w-]+) \}\}", text)) == set(ACTION["inputs"])
    # What an input holds is never a part of a script, in which it would be run.
    assert not any("${{" in step.get("run", "") for step in ACTION["runs"]["steps"])


def test_a_wrong_config_fails_with_2_and_the_summary_says_why(tmp_path: Path) -> None:
    Path("ci.yaml").write_text(CONFIG.replace("ndcg", "ndgc"))
    Path("evalplugini").touch()  # which the brackets would match as a pattern of files
    done = run_action(tmp_path, config="ci.yaml", packages="-r requirements.txt evalplugin[implicit]")
    assert done.codes == {"Install evalplugin": 0, "Run the bake-off": 2, "Report": 0}
    assert Path("pip.txt").read_text().split() == [
        "-m", "pip", "install", str(ROOT), "-r", "requirements.txt", "evalplugin[implicit]"
    ]  # fmt: skip
    assert done.summary.startswith("# ci.yaml: failure\n")
    assert "ci.yaml:5:11: metrics[0]: unknown metric 'ndgc'; did you mean 'ndcg'?\n" in done.summary
    assert done.outputs == "outcome=failure\nbakeoff=\n"
    assert not (done.folder / "comparison.html").exists()


def test_a_config_that_is_not_there_is_told(tmp_path: Path) -> None:
    done = run_action(tmp_path, config="--nightly.yaml")
    assert done.codes["Run the bake-off"] == 2
    assert "--nightly.yaml: no such file\n" in done.summary


@pytest.mark.slow
@pytest.mark.parametrize(
    ("min_users", "code", "outcome", "reason"),
    [
        (10, 0, "promote", "popularity replaces random: gain +"),
        (1000, 1, "refuse", "users 42 (needed: at least 1,000"),
    ],
)
def test_the_gate_decides(tmp_path: Path, min_users: int, code: int, outcome: str, reason: str) -> None:
    Path("ci.yaml").write_text(CONFIG.replace("10}", f"{min_users}}}"))
    done = run_action(tmp_path, config="ci.yaml", **{"tracking-uri": "sqlite:///given.db"})
    assert done.codes == {"Install evalplugin": 0, "Run the bake-off": code, "Report": 0}, done.printed
    title, said, *_, table = re.split(r"\n\n", done.summary, maxsplit=4)
    assert title == f"# ci.yaml: {outcome}"
    assert reason in said
    assert "| 1 | popularity | 0.2086 " in table
    (bakeoff,) = re.findall(rf"^outcome={outcome}\nbakeoff=([\w-]+)$", done.outputs, re.MULTILINE)
    page = (done.folder / "comparison.html").read_text(encoding="utf-8")
    assert bakeoff in page
    assert [file.name for file in Path().glob("*.db")] == ["given.db"]


@pytest.mark.slow
def test_a_single_model_has_no_table(tmp_path: Path) -> None:
    Path("ci.yaml").write_text(re.sub("models: .*\n(.*\n)*", "models: [popularity]\n", CONFIG))
    done = run_action(tmp_path, config="ci.yaml")
    assert set(done.codes.values()) == {0}
    assert done.summary == "# ci.yaml: done\n\npopularity is the only model with a value of ndcg@10.\n"
