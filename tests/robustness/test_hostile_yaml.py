"""Hostile configs, assignments and addresses of stores: one line each with its place, exit code 2, no traceback."""

from __future__ import annotations

import pytest
import yaml
from samples import write_config

from evalplugin.base.errors import ConfigError, TrackingUriError
from evalplugin.cli import main
from evalplugin.config.document import parse_document
from evalplugin.tracking.location import resolve_uri

BASE = """\
experiment: e
datasets: [synthetic]
split: {type: last_n, n: 1}
recommend: {n: 10}
metrics: [ndcg@10]
models: [random, {type: surprise.KNNBasic, params: {k: 3}}]
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: " + "[" * 4000 + "]" * 4000, "c.yaml:1:1: is nested too deeply"),
        ("a: &a [*a]", "c.yaml:1:1: is nested too deeply, or an alias stands inside of its own anchor"),
        ("a: 1" + "0" * 400, "is not a 64-bit integer"),
        ("a: 1e400", "c.yaml:1:4: a: '1e400' is too large for a number"),
        ('a: "\\U00110000"', "c.yaml:1:1: cannot be read as YAML"),
        ("a: 1\nb: \0", r"c.yaml:2:4: the character \u0000 is not allowed in YAML"),
        ("a: \ud800", r"c.yaml:1:4: the character \ud800 is not allowed in YAML"),
        ("a: !!python/name:os.system x", "c.yaml:1:4: a: the YAML tag"),
    ],
)  # fmt: skip
def test_hostile_yaml_is_one_line_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_document(text, "c.yaml")
    assert message in str(raised.value)
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("models.99999999999999999999.k=1", "name a position from 0 to 1"),
        ("models.1" + "0" * 5000 + ".k=1", "name a position from 0 to 1"),
        ("models.1.params.k=1" + "0" * 400, "is not a 64-bit integer"),
        ("models.1.params.k=" + "[" * 4000, "nested too deeply"),
        ("models.1.params.k=1e999", "is too large for a number"),
        ("limits.memory=" + "9" * 400 + "GB", "must be a size such as 2GB"),
        ("seed=-1", "must be greater than or equal to 0"),
        ("..=1", "must look like"),
        ("=", "must look like"),
    ],
)  # fmt: skip
def test_hostile_assignment_is_one_line(tmp_path, capsys, assignment, message):
    file = tmp_path / "c.yaml"
    file.write_text(BASE)
    assert main(["validate", str(file), "--set", assignment]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.startswith(("--set ", "error: --set "))
    assert shown.count("\n") == 1
    assert len(shown) < 800


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("experiment", "a\nerror: b"),
        ("models", [{"type": "random", "name": "a\nb"}]),
        ("datasets", [{"type": "synthetic", "name": "a\nb"}]),
    ],
)
def test_name_of_several_lines_is_a_mistake(tmp_path, capsys, key, value):
    file = tmp_path / "c.yaml"
    write_config({**yaml.safe_load(BASE), key: value}, file)
    assert main(["validate", str(file)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert ": must be one line, not 'a\\n" in line


URIS = [
    ("http://[", "its host or port is malformed"),
    ("http://host:99999", "its host or port is malformed"),
    ("http://host:port", "it must look like http://host:5000"),
    ("https://", "names no host"),
    ("htp://host", "did you mean 'http'?"),
    ("http://host:se", "its host or port is malformed; it must look like"),
    ("postgresql://host:port/db", "it must look like postgresql://host:5432/mlflow"),
    ("postgresql+unknown://host/db", "is not a driver that SQLAlchemy knows"),
    ("oracle+cx_oracle://host/db", "its driver is not installed: No module named 'cx_Oracle'"),
    (" http://host", "has white space around it"),
    ("http://ho\x1bst", "or a control character"),
    ("mlruns", "is a plain folder"),
    ("sqlite://", "is a database in memory"),
    ("sqlite:///:memory:", "is a database in memory"),
    ("sqlite://mlflow.db", "a path follows three slashes"),
    ("ftp://ann:pw@host/x", "'ftp://***@host/x': 'ftp' is not a kind of tracking store; allowed: http"),
]


@pytest.mark.parametrize(("uri", "message"), URIS)
def test_malformed_tracking_uri_is_a_mistake_of_the_config(tmp_path, capsys, uri, message):
    with pytest.raises(TrackingUriError) as raised:
        resolve_uri(uri)
    assert message in str(raised.value)
    file = tmp_path / "c.yaml"
    file.write_text(BASE + yaml.safe_dump({"tracking": {"uri": uri}}))
    assert main(["validate", str(file)]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert f"{file}:8:8: tracking.uri: " in shown
