from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from evalplugin import __version__
from evalplugin.cli import main
from evalplugin.cli.program import cli

ROOT = Path(__file__).parents[2]
KNN = str(ROOT / "configs" / "knn.yaml")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for command in ("run", "validate", "list", "describe", "schema"):
        assert f"\n  {command} " in out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"{__version__}\n"


def test_missing_command_shows_help_and_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "Usage:" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
@pytest.mark.parametrize("argv", [["--help"], ["list", "models"]])
def test_output_that_cannot_be_written_is_one_message(argv: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "evalplugin", *argv], env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    message = "error: cannot write a file or the output: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, message)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["rn"], "No such command 'rn'"),
        (["run"], "Missing argument 'CONFIG...'"),
        (["run", "a.yaml", "--sett", "a=1"], "No such option '--sett'"),
        (["list", "model"], "'model' is not one of"),
        (["run", "none.yaml"], "none.yaml: no such file"),
        (["run", "none.yaml", "--fresh", "--if-changed"], "asks for work all the same: choose one"),
        (["run", "none.yaml", "--outcome", "none/o.jsonl"], "none/o.jsonl: no such folder: none"),
        (
            ["describe", "model", "surprise.KNNBase"],
            "model 'surprise.KNNBase'; did you mean 'surprise.KNNBas",
        ),
        (["list", "models", "--plugin", "none.py"], "plugin file not found"),
    ],
)
def test_usage_error_is_one_message_and_exit_code_2(argv, expected, capsys):
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert expected in captured.err.replace("No such option: --sett", "No such option '--sett'")
    assert captured.out == ""
    assert "Traceback" not in captured.err


def commands(group: click.Group = cli, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        else:
            yield (*path, name), command


@pytest.mark.parametrize(
    ("path", "command"), [*commands()], ids=lambda value: value if isinstance(value, tuple) else ""
)
def test_an_option_of_one_value_is_refused_when_it_is_repeated(path, command, capsys):
    for option in command.params:
        if isinstance(option, click.Option) and not option.multiple and not option.is_flag:
            given = [option.opts[0], *["1"] * option.nargs]
            assert main([*path, *given, *given]) == 2
            assert f"Error: {option.opts[-1]} is given 2 times: it takes one value" in capsys.readouterr().err


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "none.yaml", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err
    assert main(["--debug", "validate", "none.yaml"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_validate_prints_sizes_of_each_config(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", KNN, str(ROOT / "configs" / "blobs.yaml")]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{KNN}: valid: 7 models x 1 dataset x 1 split, 9 metrics",
        f"{ROOT}/configs/blobs.yaml: valid: 2 models x 1 dataset x 1 split, 6 metrics",
    ]


def test_validate_reports_errors_of_all_configs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(f"experiment: {name}\nseed: x\n")
    assert main(["validate", str(tmp_path / "a.yaml"), KNN, str(tmp_path / "b.yaml")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert f"{tmp_path}/a.yaml:2:7: seed: must be an integer, not 'x'" in lines
    assert f"{tmp_path}/b.yaml:2:7: seed: must be an integer, not 'x'" in lines


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("models", ["popularity", "random", "sklearn.NMF", "surprise.KNNBasic", "surprise.SVDpp"]),
        ("metrics", ["ap", "coverage", "ndcg", "rbp", "rmse"]),
        ("datasets", ["blobs", "csv", "movielens", "parquet", "synthetic"]),
        ("splits", ["holdout", "kfold", "last_n", "none", "sample_users", "temporal"]),
        ("segments", ["activity", "attribute", "cold", "popularity"]),
    ],
)
def test_list_prints_each_name_with_a_summary(kind, names, capsys):
    assert main(["list", kind]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert set(names) <= set(lines)
    assert all(summary.strip() for summary in lines.values())


def test_list_prints_the_origin_of_plugins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:

    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import dataclass\nimport evalplugin\n"
        "@evalplugin.model('listed-for-test')\n@dataclass\nclass Mine:\n    'Guesses.'\n"
        "    def fit(self, train, rng): ...\n    def scores(self, users): ...\n"
    )
    assert main(["list", "models", "--plugin", str(file)]) == 0
    assert f"Guesses.  [{file}]" in capsys.readouterr().out


def test_describe_prints_definition_parameters_and_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "metric", "ndcg"]) == 0
    out = capsys.readouterr().out
    assert "Jarvelin" in out.replace("ä", "a")
    assert '  gain: "linear" | "exp2" | "binary"; default "linear"' in out
    assert main(["describe", "model", "surprise.KNNBasic"]) == 0
    out = capsys.readouterr().out
    assert "  k: integer >= 1; default 40" in out
    assert "  sim_options.name:" in out
    assert main(["describe", "segment", "activity"]) == 0
    assert "  groups: integer >= 1; default 3" in capsys.readouterr().out


def test_schema_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["properties"]["seed"]["minimum"] == 0


def test_dry_run_prints_the_plan_and_writes_nothing(capsys, tmp_path):
    before = set(Path.cwd().iterdir())
    assert main(["run", KNN, "--dry-run", "--set", "models.3.params.min_k=2"]) == 0
    out = capsys.readouterr().out
    for word in ("knn-item(k=10)", "random", "1,000", "100"):
        assert word in out
    assert set(Path.cwd().iterdir()) == before
