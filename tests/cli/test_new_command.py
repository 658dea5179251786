"""The command `new` writes components that work and keep their contract."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from evalplugin.cli import main

KINDS = ("model", "metric", "dataset", "split")


def assert_tests_pass() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_templates_pass_their_contract_tests_and_are_described(capsys):
    for kind in KINDS:
        assert main(["new", kind, f"my-new-{kind}"]) == 0
        assert main(["describe", kind, f"my-new-{kind}", "--plugin", f"my_new_{kind}.py"]) == 0
        assert "One line on" in capsys.readouterr().out
    expected = [f"{test}my_new_{kind}.py" for test in ("", "test_") for kind in sorted(KINDS)]
    assert [path.name for path in sorted(Path().iterdir()) if path.is_file()] == expected
    assert_tests_pass()


def test_the_template_of_a_program_makes_lists(store: Path) -> None:
    import evalplugin

    assert main(["new", "model", "own-program", "--command"]) == 0
    assert [path.name for path in sorted(Path().glob("*.py"))] == ["own_program.py", "test_own_program.py"]
    (model,) = yaml.safe_load(Path("own_program.py").read_text().split('"""')[1].partition("In a config:")[2])
    model["params"]["command"][0] = sys.executable
    config = {
        "experiment": "own", "datasets": [{"type": "synthetic", "n_users": 60, "n_items": 50, "n_interactions": 1500}],
        "split": "holdout", "relevance": {"threshold": 4}, "recommend": {"n": 5}, "metrics": ["ndcg@5"],
        "models": ["random", model], "tracking": {"uri": "sqlite:///mlflow.db"},
    }  # fmt: skip
    random, own = evalplugin.run(config).models
    assert own.error is None
    assert own.notes == ()
    assert own.per_user.means["ndcg@5"] > random.per_user.means["ndcg@5"]


@pytest.mark.slow
def test_the_template_of_a_program_passes_its_contract_test() -> None:
    assert main(["new", "model", "own-program", "--command"]) == 0
    assert_tests_pass()


def test_only_a_model_can_be_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "metric", "liked", "--command"]) == 2
    assert "No such option" in capsys.readouterr().err
    assert not list(Path().iterdir())


def test_a_bake_off_of_templates_alone_runs() -> None:
    for kind in KINDS:
        assert main(["new", kind, f"own-{kind}"]) == 0
    plugins = ", ".join(f"own_{kind}.py" for kind in KINDS)
    Path("own.yaml").write_text(
        f"experiment: own\nplugins: [{plugins}]\ndatasets: [own-dataset]\nsplit: own-split\n"
        "relevance: {threshold: 4}\nmetrics: [own-metric@10]\nmodels: [own-model, random]\n"
        "tracking: {uri: 'sqlite:///mlflow.db'}\n"
    )
    assert main(["run", "own.yaml"]) == 0


@pytest.mark.parametrize("name", ["My-Model", "1st", "a b", "../x", "-x", "a--b", ""])
def test_a_name_that_is_no_name_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "model", "--", name]) == 2
    assert "must be lower-case words" in capsys.readouterr().err
    assert not list(Path().iterdir())


@pytest.mark.parametrize("taken", ["liked.py", "test_liked.py"])
def test_a_file_that_exists_stays(taken: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(taken).write_text("mine")
    assert main(["new", "metric", "liked"]) == 2
    assert f"{taken} exists" in capsys.readouterr().err
    assert [path.read_text() for path in Path().iterdir()] == ["mine"]
