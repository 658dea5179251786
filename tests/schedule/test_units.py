"""The units that are printed, each checked by a parser or linter of its format."""

from __future__ import annotations

import ast
import configparser
import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import jsonschema
import pytest
import yaml
from crontab import CronTab
from samples import write_config

from evalplugin import __version__
from evalplugin.base.errors import ConfigError, DataError
from evalplugin.cli import main
from evalplugin.cli.schedule import REMOTE_UNITS, UNITS
from evalplugin.config import load
from evalplugin.config.cron import Cron
from evalplugin.schedule import KINDS, scheduled_configs, units

HERE = Path(__file__).parent
NIGHTLY = HERE.parents[1] / "experiments" / "nightly"
CONFIG = {
    "experiment": "nightly",
    "datasets": ["synthetic"],
    "split": {"type": "last_n", "n": 2},
    "metrics": ["ndcg@10"],
    "models": ["random"],
    "schedule": {"cron": "0 3 * * 7", "timezone": "Europe/Berlin"},
}
# What shells, cron, systemd, YAML and Python each read in a way of their own.
ODD = 'it\'s 100% "$HOME" {x} #1'


@pytest.fixture(params=["plain", ODD])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory, with an odd name too."""
    folder = tmp_path / request.param
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def config(name: str = "nightly.yaml", **changes: Any) -> Path:
    file = Path(name)
    write_config(CONFIG | changes, file)
    return file


def made(
    kind: Any,
    *files: Path,
    options: tuple[str, ...] = (),
    image: str | None = None,
    tracking_uri: str | None = None,
) -> dict[str, str]:
    jobs = scheduled_configs([load(file) for file in files], files, tracking_uri=tracking_uri)
    return units(kind, jobs, folder=Path.cwd(), options=options, image=image)


def command(file: Path, *options: str) -> list[str]:
    head = [sys.executable, "-m", "evalplugin", "schedule", "--once", "--if-changed"]
    return [*head, *options, str(file.absolute())]


def test_a_crontab_runs_the_command_at_its_time(place: Path) -> None:
    file = config()
    (text,) = made("cron", file, options=("--set", "models.0=a b")).values()
    tab = CronTab(tab=text)
    (job,) = list(tab)
    assert job.is_valid()
    assert str(job.slices) == "0 3 * * 0"
    assert dict(job.env) == {"CRON_TZ": "Europe/Berlin"}
    assert text.endswith("\n")  # cron leaves out a last line without an end
    written = text.splitlines()[-1].removeprefix("0 3 * * 0 ")
    # To cron, a percent sign that is not escaped ends the command.
    assert "%" not in written.replace("\\%", "")
    line = shlex.split(written.replace("\\%", "%"))
    assert line[:3] == ["cd", str(place), "&&"]
    assert line[3:] == [*command(file, "--set", "models.0=a b"), ">>", "nightly.log", "2>&1"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_unit_names_the_variable_of_a_database(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sqlite3.connect("shop.db").close()
    monkeypatch.setenv("SHOP_DATABASE", "sqlite:///shop.db")
    shop = {"name": "shop", "type": "sql", "url": "${SHOP_DATABASE}", "query": "SELECT 1"}
    assert "SHOP_DATABASE" in "".join(made(kind, config(datasets=[shop])).values())


def test_every_config_gets_a_line_in_one_crontab(tmp_path: Path) -> None:
    files = [config("a.yaml"), config("b.yaml", schedule={"cron": "5 4 * * *"})]
    (text,) = made("cron", *files).values()
    jobs = list(CronTab(tab=text))
    assert [(str(job.slices), dict(job.env)["CRON_TZ"]) for job in jobs] == [
        ("0 3 * * 0", "Europe/Berlin"),
        ("5 4 * * *", "UTC"),
    ]


def test_systemd_gets_a_service_and_a_timer(place: Path) -> None:
    file = config()
    found = made("systemd", file, options=("--set", "models.0.params.a$b=50%"))
    assert set(found) == {"evalplugin-nightly.service", "evalplugin-nightly.timer"}
    service, timer = (parsed(found[f"evalplugin-nightly.{kind}"]) for kind in ("service", "timer"))
    assert service["Service"]["Type"] == "oneshot"
    assert service["Service"]["WorkingDirectory"].replace("%%", "%") == str(place)
    words = unquoted(service["Service"]["ExecStart"])
    assert words == command(file, "--set", "models.0.params.a$b=50%")
    assert dict(timer["Timer"]) == {"OnCalendar": "Sun *-*-* 03:00:00 Europe/Berlin", "Persistent": "true"}
    assert timer["Install"]["WantedBy"] == "timers.target"


def parsed(unit: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#", ";"))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(unit)
    return parser


def unquoted(line: str) -> list[str]:
    """Return the words of a command as systemd reads them."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters, lexer.quotes = True, "", '"'
    return [word.replace("%%", "%").replace("$$", "$") for word in lexer]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here to be asked")
def test_systemd_finds_nothing_wrong(place: Path) -> None:
    files = []
    for name, text in made("systemd", config()).items():
        (place / name).write_text(text)
        files.append(name)
    done = subprocess.run(["systemd-analyze", "verify", *files], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_kubernetes_gets_a_cron_job_that_fits_its_schema(place: Path) -> None:
    Path("configs").mkdir()
    file = config("configs/nightly.yaml", notify={"url": "https://h/${HOOK}"})
    (text,) = made("kubernetes", file, image="r.io/ours:1").values()
    schema = json.loads((HERE / "cronjob.schema.json").read_text())
    manifest = yaml.safe_load(text)
    jsonschema.Draft202012Validator(schema).validate(manifest)
    spec = manifest["spec"]
    assert (spec["schedule"], spec["timeZone"]) == ("0 3 * * 0", "Europe/Berlin")
    assert spec["concurrencyPolicy"] == "Forbid"
    assert spec["startingDeadlineSeconds"] == 12 * 3600
    (container,) = spec["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "r.io/ours:1"
    assert container["command"] == ["python", *command(file)[1:-1], "configs/nightly.yaml"]
    assert "# The secret evalplugin-nightly holds MLFLOW_TRACKING_URI, HOOK.\n" in text
    assert container["envFrom"] == [{"secretRef": {"name": "evalplugin-nightly", "optional": False}}]


def test_github_gets_a_workflow_that_its_linter_accepts(place: Path) -> None:
    file = config(notify={"url": "https://h/${HOOK}"})
    ((name, text),) = made("github", file, options=("--set", "a=it's")).items()
    Path(name).write_text(text)
    linter = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", name]
    done = subprocess.run(linter, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    workflow = yaml.safe_load(text)
    assert workflow["on"]["schedule"] == [{"cron": "0 3 * * 0", "timezone": "Europe/Berlin"}]
    job = workflow["jobs"]["bake-off"]
    assert job["env"]["HOOK"] == "${{ secrets.HOOK }}"
    # The name is anybody's on PyPI: what the repository says is installed, and nothing else.
    assert job["steps"][-2]["run"] == "python -m pip install -r requirements.txt"
    assert "# Its requirements.txt says where evalplugin comes from, which is not PyPI" in text
    run = shlex.split(job["steps"][-1]["run"])
    assert run == ["python", *command(file, "--set", "a=it's")[1:-1], "nightly.yaml"]


def test_airflow_gets_a_dag_that_compiles_and_says_what_it_should(place: Path) -> None:
    file = config()
    ((name, text),) = made("airflow", file).items()
    tree = ast.parse(text)
    compile(tree, name, "exec")
    imported = {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    imported |= {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    assert imported == {"pendulum", "BashOperator", "DAG"}
    assert {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} == imported
    calls = {ast.unparse(call.func): call for call in ast.walk(tree) if isinstance(call, ast.Call)}
    dag = {key.arg: key.value for key in calls["DAG"].keywords}
    assert ast.literal_eval(dag["schedule"]) == "0 3 * * 0"
    assert (ast.literal_eval(dag["catchup"]), ast.literal_eval(dag["max_active_runs"])) == (False, 1)
    assert "Europe/Berlin" in ast.unparse(dag["start_date"])
    task = {key.arg: ast.literal_eval(key.value) for key in calls["BashOperator"].keywords}
    assert shlex.split(task["bash_command"]) == command(file)
    assert task["cwd"] == str(place)


def test_dagster_gets_a_job_and_a_schedule(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = config()
    ((name, text),) = made("dagster", file, options=("--set", "a=it's")).items()
    dagster = MagicMock()
    dagster.op = dagster.job = lambda function: function
    monkeypatch.setitem(sys.modules, "dagster", dagster)
    ran = MagicMock()
    monkeypatch.setattr(subprocess, "run", ran)
    names: dict[str, Any] = {}
    exec(compile(text, name, "exec"), names)
    given = dagster.ScheduleDefinition.call_args.kwargs
    assert (given["cron_schedule"], given["execution_timezone"]) == ("0 3 * * 0", "Europe/Berlin")
    assert given["job"] is names["evalplugin_nightly"]
    names["evalplugin_nightly"]()
    ran.assert_called_once_with(command(file, "--set", "a=it's"), cwd=str(place), check=True)


@pytest.mark.parametrize("code", [0, 1])
def test_databricks_gets_a_job_and_its_program(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = made("databricks", config(notify={"url": "https://h/${HOOK}"}))
    job = yaml.safe_load(texts["evalplugin_nightly_databricks.yml"])["resources"]["jobs"][
        "evalplugin_nightly"
    ]
    schedule = {
        "quartz_cron_expression": "0 0 3 ? * 1",
        "timezone_id": "Europe/Berlin",
        "pause_status": "UNPAUSED",
    }
    assert job["schedule"] == schedule
    assert job["environments"][0]["spec"]["dependencies"] == [f"evalplugin=={__version__}"]
    assert job["tasks"][0]["spark_python_task"]["python_file"] in texts
    runtime, ran = MagicMock(), MagicMock(return_value=code)
    runtime.dbutils.secrets.get = lambda scope, name: f"{scope}/{name}"
    monkeypatch.setitem(sys.modules, "databricks.sdk.runtime", runtime)
    monkeypatch.setattr("evalplugin.cli.main", ran)
    monkeypatch.setattr(sys, "argv", ["evalplugin_nightly.py", "."])
    monkeypatch.setattr(os, "environ", dict(os.environ))
    program = compile(texts["evalplugin_nightly_databricks.py"], "evalplugin_nightly.py", "exec")
    with nullcontext() if code == 0 else pytest.raises(RuntimeError, match="exit code 1"):
        exec(program, {})
    ran.assert_called_once_with(["schedule", "--once", "--if-changed", "nightly.yaml"])
    assert (os.environ["HOOK"], os.environ["MLFLOW_TRACKING_URI"]) == ("evalplugin/HOOK", "databricks")


@pytest.mark.parametrize(
    ("cron", "quartz"),
    [
        ("0 3 * * *", "0 0 3 * * ?"),
        ("*/15 1-3 * * MON-FRI", "0 */15 1-3 ? * 2,3,4,5,6"),
        ("5 4 1,15 JAN-MAR *", "0 5 4 1,15 1,2,3 ?"),
        ("0 3 1-31 * 1", "0 0 3 * * ?"),
    ],
)
def test_times_as_databricks_writes_them(cron: str, quartz: str) -> None:
    assert Cron.of(cron).quartz == quartz


def test_days_of_two_fields_are_refused_for_databricks() -> None:
    with pytest.raises(
        DataError, match="Databricks takes no schedule with both a day of month and a day of week"
    ):
        made("databricks", config(schedule={"cron": "0 3 1 * 1"}))


def test_configs_of_one_name_get_units_of_their_own() -> None:
    for folder in ("a", "b"):
        Path(folder).mkdir()
    files = [config("a/My Config.yaml"), config("b/my_config.yaml")]
    assert list(made("airflow", *files)) == ["evalplugin_my_config.py", "evalplugin_my_config_2.py"]


def test_long_names_are_cut_and_stay_different() -> None:
    files = [config(f"{'long-' * 20}{end}.yaml") for end in ("a", "b", "c")]
    names, secrets = [], []
    for text in made("kubernetes", *files).values():
        manifest = yaml.safe_load(text)
        names.append(manifest["metadata"]["name"])
        (container,) = manifest["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
        secrets.append(container["envFrom"][0]["secretRef"]["name"])
    assert names == secrets
    assert len(set(names)) == 3
    assert max(map(len, names)) <= 52
    assert all(name[-1] != "-" and "--" not in name for name in names)


@pytest.mark.parametrize("kind", ["cron", "systemd", "airflow", "dagster"])
def test_units_name_tracking_uri_variable(kind: Any) -> None:
    plain, hook = config(), config("hook.yaml", notify={"url": "https://h/${HOOK}"})
    note = "Without MLFLOW_TRACKING_URI, runs are logged to sqlite:///mlflow.db.\n"
    assert note in "".join(made(kind, plain).values())
    assert "MLFLOW_TRACKING_URI, HOOK" in "".join(made(kind, hook).values())
    for named in (
        made(kind, hook, tracking_uri="https://h"),
        made(kind, config("hook.yaml", tracking={"uri": "https://h"}, notify={"url": "https://h/${HOOK}"})),
    ):
        text = "".join(named.values())
        assert "HOOK" in text
        assert "MLFLOW_TRACKING_URI" not in text


def test_systemd_timer_enables_linger() -> None:
    for text in made("systemd", config()).values():
        assert "loginctl enable-linger" in text.splitlines()[1]


@pytest.mark.parametrize("names", [("nightly.yaml", "./nightly.yaml"), ("nightly.yaml", "link.yaml")])
def test_duplicate_config_is_refused(names: tuple[str, str]) -> None:
    config()
    Path("link.yaml").symlink_to("nightly.yaml")
    with pytest.raises(ConfigError, match="yaml: is given twice; give each config once"):
        made("cron", *map(Path, names))


def test_config_without_schedule_is_an_error() -> None:
    file = config(schedule=None)
    with pytest.raises(
        ConfigError, match=r"nightly.yaml: has no schedule; add one, such as schedule: \{cron"
    ):
        made("cron", file)


def test_unprintable_path_is_an_error() -> None:
    file = config("two\nlines.yaml")
    with pytest.raises(DataError, match="characters that cannot be printed"):
        made("cron", file)
    for name in ("{{x}}.yaml", "{%x.yaml", "{#x.yaml"):
        with pytest.raises(DataError, match="Airflow would read this path or option as a template"):
            made("airflow", config(name))


def test_the_command_prints_one_file_or_writes_all(capsys: pytest.CaptureFixture[str]) -> None:
    config()
    assert UNITS == KINDS
    for kind in KINDS:
        assert main(["schedule", "--print", kind, "nightly.yaml"]) == 0
        out = capsys.readouterr().out
        assert "evalplugin" in out
        assert ("# file: evalplugin-nightly.timer" in out) == (kind == "systemd")
    assert main(["schedule", "--print", "systemd", "--out", "units", "nightly.yaml"]) == 0
    names = ["units/evalplugin-nightly.service", "units/evalplugin-nightly.timer"]
    assert capsys.readouterr().out.splitlines() == names
    assert all(Path(name).read_text().startswith("# Bake-off nightly.yaml") for name in names)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--print", "cron", "--once"], "--once runs now, --print prints a unit: choose one"),
        (["--image", "x"], "--image goes with --print kubernetes"),
        (["--print", "cron", "--image", "x"], "--image goes with --print kubernetes"),
        (["--out", "x"], "--out goes with --print"),
        (["--outcome", "x"], "--outcome goes with --once"),
        (
            ["--print", "cron", "--tracking-uri", "https://a:secret@h"],
            "--tracking-uri https://***@h: credentials do not belong into a unit; name no store here or in the config, "
            "and set MLFLOW_TRACKING_URI where the unit runs",
        ),
        (
            ["--print", "cron", "--set", "tracking.uri=https://a:secret@h"],
            "--set tracking.uri=https://***@h: credentials do not belong into a unit; name no store",
        ),
        (
            ["--print", "cron", "--set", "datasets.0.name=https://a:secret@h"],
            "--set datasets.0.name=https://***@h: credentials do not belong into a unit; write it into the config",
        ),
        (["--print", "cron", "--set", "models.0.params.api_key=secret"], "unknown parameter 'api_key'"),
        (["--print", "crn"], "'crn' is not one of 'cron'"),
    ],
)
def test_contradicting_schedule_options_are_errors(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config()
    assert main(["schedule", *argv, "nightly.yaml"]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert "secret" not in err


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("notify.url", "https://host/hook/secret"),
        ("notify.url", "https://host?key=secret"),
        ("notify", "{url: 'https://host/secret'}"),
        ("notify.command", "[tell, secret]"),
        ("notify", "{command: ['${A}', secret]}"),
    ],
)
def test_unit_refuses_notification_secrets(key: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    config()
    assert main(["schedule", "--print", "cron", "--set", f"{key}={value}", "nightly.yaml"]) == 2
    out, err = capsys.readouterr()
    assert f"--set {key}: an address or a command may hold a secret, which a unit would show" in err
    assert "write it into the config, with ${NAME} in place of what is secret" in err
    assert "secret" not in err.replace("what is secret", "").replace("a secret", "") + out


@pytest.mark.parametrize(
    "assignment",
    ["notify.url=${HOOK}", "notify.url=https://host/${A}/${B}", "notify={url: 'https://h', tries: 2}"],
)
def test_unit_may_show_host_and_placeholders(assignment: str, capsys: pytest.CaptureFixture[str]) -> None:
    config()
    assert main(["schedule", "--print", "cron", "--set", assignment, "nightly.yaml"]) == 0
    assert shlex.quote(assignment) in capsys.readouterr().out


def test_unwritable_unit_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    config()
    Path("afile").touch()
    Path("folder/evalplugin.crontab").mkdir(parents=True)
    for out, file in (("afile/x", "afile/x"), ("folder", "folder/evalplugin.crontab")):
        assert main(["schedule", "--print", "cron", "--out", out, "nightly.yaml"]) == 2
        assert f"--out {out}: cannot write {file}: " in capsys.readouterr().err


@pytest.mark.parametrize("kind", KINDS)
def test_unit_has_data_home_as_typed(
    kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config()
    elsewhere = kind in REMOTE_UNITS
    monkeypatch.setenv("EVALPLUGIN_DATA_HOME", "/of/this/machine")
    assert main(["schedule", "--print", kind, "nightly.yaml"]) == 0
    assert ("/of/this/machine" in capsys.readouterr().out) is not elsewhere
    assert main(["schedule", "--print", kind, "--data-home", "there", "nightly.yaml"]) == 0
    folder = "there" if elsewhere else str(Path("there").absolute())
    words = re.sub(r"(^\s*- )|[',\[\]]", "", capsys.readouterr().out, flags=re.MULTILINE).split()
    assert words[words.index("--data-home") + 1] == folder


@pytest.mark.parametrize("argv", [["--print", "github"], ["--print", "cron"], []])
@pytest.mark.parametrize("uri", ["./mlruns", "file:./mlruns"])
def test_unusable_tracking_uri_is_refused_at_once(
    argv: list[str], uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config(tracking={"uri": uri})
    assert main(["schedule", *argv, "nightly.yaml"]) == 2
    assert f"tracking URI '{uri}' is a plain folder" in capsys.readouterr().err


@pytest.mark.parametrize("kind", KINDS)
def test_unit_of_a_store_whose_driver_is_missing_here_is_printed(
    kind: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = "oracle+cx_oracle://host/db"
    config(tracking={"uri": uri})
    assert main(["schedule", "--print", kind, "nightly.yaml"]) == 0
    assert main(["schedule", "--print", kind, "--tracking-uri", uri, "nightly.yaml"]) == 0
    assert capsys.readouterr().err == ""
    for command in (["schedule"], ["schedule", "--once"], ["validate"]):
        assert main([*command, "nightly.yaml"]) == 2
        assert "its driver is not installed: No module named 'cx_Oracle'" in capsys.readouterr().err


def test_local_tracking_store_in_remote_unit_warns(capsys: pytest.CaptureFixture[str]) -> None:
    config(tracking={"uri": "sqlite:///mlflow.db"})
    assert main(["schedule", "--print", "github", "nightly.yaml"]) == 0
    assert "logs to sqlite:///mlflow.db, a file that is gone with the machine" in capsys.readouterr().err
    config(tracking={"uri": "sqlite+pysqlite:///mlflow.db"})
    assert main(["schedule", "--print", "kubernetes", "nightly.yaml"]) == 0
    assert "a file that is gone with the machine" in capsys.readouterr().err
    assert main(["schedule", "--print", "cron", "nightly.yaml"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("kind", KINDS)
def test_nightly_example_units_are_up_to_date(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/srv/recommender/.venv/bin/python")
    shutil.copy(NIGHTLY / "nightly.yaml", "nightly.yaml")
    Path("ratings.csv").touch()
    (job,) = scheduled_configs([load(Path("nightly.yaml"))], [Path("nightly.yaml")])
    server = ("--tracking-uri", "https://mlflow.example.org") if kind in ("kubernetes", "github") else ()
    found = units(
        kind,
        [replace(job, file=Path("/srv/recommender/nightly.yaml"))],
        folder=Path("/srv/recommender"),
        options=server,
        image="registry.example.org/recommender:1",
    )
    for name, text in found.items():
        assert (NIGHTLY / "units" / name).read_text().replace("0.1.0", __version__) == text
