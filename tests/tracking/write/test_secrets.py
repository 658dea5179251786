"""Secrets that are planted in a whole bake-off are found in nothing that it prints, logs or keeps."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from evalplugin.base import secrets as redaction
from evalplugin.cli import main

PLUGIN = """
import os
from dataclasses import dataclass
import numpy as np
import evalplugin
from evalplugin.data import DATASETS

synthetic = DATASETS.entry("synthetic").cls


@evalplugin.dataset("warehouse")
@dataclass
class Warehouse:
    uri: str
    token: str

    def check(self, context):
        return []

    def load(self, context):
        return synthetic(n_users=30, n_items=20, n_interactions=300).load(context)


@evalplugin.model("remote")
@dataclass
class Remote:
    api_key: str
    endpoint: str = ""

    def fit(self, train, rng):
        self.weight = train.item_counts.astype(float)
        if not self.endpoint:
            return
        said = f"{self.endpoint} refused {os.environ['SERVICE_PASSWORD']}, sent Authorization: Bearer {self.api_key}"
        raise ConnectionError(said)

    def scores(self, users):
        return np.tile(self.weight, (len(users), 1))
"""

CONFIG = """\
# by hand: postgresql://ann:planted-in-comment@db/x
experiment: secrets
plugins: [plugin.py]
datasets:
  - {name: shop, type: warehouse, uri: "postgresql://ann:planted-in-uri@db:5432/shop", token: planted token with blanks}
split: {type: last_n, n: 2}
recommend: {n: 5}
metrics: [ndcg@5]
models:
  - random
  - {name: local, type: remote, params: {api_key: planted-in-local}}
  - name: remote
    type: remote
    params:
      api_key: |
        planted-in-api-key
      endpoint: https://ann:planted-in-endpoint@remote/x?access_token=planted-in-query
notify:
  url: http://127.0.0.1:9/hooks/${HOOK}
  tries: 1
"""

ENVIRONMENT = {"HOOK": "planted/in hook", "SERVICE_PASSWORD": "planted-in-environment"}
PLANTED = (
    "planted-in-comment", "planted-in-uri", "planted token with blanks", "with blanks", "planted-in-api-key",
    "planted-in-endpoint", "planted-in-query", "planted/in hook", "planted/in%20hook", "planted-in-environment",
    "planted-in-remote", "planted-in-local", "planted-in-option",
)  # fmt: skip


@pytest.fixture
def said(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Return what runs a command and returns its exit code and all that it prints."""
    monkeypatch.setattr(redaction, "_registered", set())
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    Path("plugin.py").write_text(PLUGIN)
    Path("secrets.yaml").write_text(CONFIG)

    def say(*argv: str) -> tuple[int, str]:
        capfd.readouterr()
        code = main(argv)
        return code, "".join(capfd.readouterr())

    return say


def leaks(text: str) -> list[str]:
    return [secret for secret in PLANTED if secret in text]


def test_no_secret_is_printed_logged_or_kept(said: Callable[..., tuple[int, str]], uri: str) -> None:
    shutil.move(uri.removeprefix("sqlite:///"), "mlflow.db")
    for git in (
        ["init", "-q"],
        ["config", "user.email", "a@b"],
        ["config", "user.name", "a"],
        ["remote", "add", "origin", "https://oauth2:planted-in-remote@git.example.org/x.git"],
        ["commit", "-q", "--allow-empty", "-m", "x"],
    ):
        subprocess.run(["git", *git], check=True)
    code, printed = said("run", "secrets.yaml", "--outcome", "outcome.jsonl")
    assert code == 1, printed  # a model failed, as it was made to
    assert "remote failed" in printed
    assert "notify.url (${HOOK}) was not told of the bake-off: ConnectionError" in printed
    assert leaks(printed) == []

    files = [f for f in Path().rglob("*") if f.is_file() and ".git" not in f.parts]
    own = {Path("plugin.py"), Path("secrets.yaml")}
    searched = [f for f in files if f not in own]
    assert Path("mlflow.db") in searched
    assert {"config.yaml", "traceback.txt", "config_resolved.yaml", "outcome.jsonl"} <= {
        f.name for f in searched
    }
    found = {str(f): leaks(f.read_bytes().decode("utf-8", "ignore")) for f in searched}
    assert {name: secrets for name, secrets in found.items() if secrets} == {}
    # What is hidden was there to be hidden.
    (config,) = {f.read_text() for f in searched if f.name == "config.yaml"}
    assert config.count("***") >= 5
    assert "http://127.0.0.1:9/***" in config


def test_a_traceback_shows_no_secret(said):
    code, printed = said(
        "run", "secrets.yaml", "--set", "models.2.params.api_key=[planted-in-option]", "--debug"
    )
    assert code == 2
    assert "must be text" in printed
    assert leaks(printed) == []
