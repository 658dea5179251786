"""Credentials are redacted in logs, output and errors."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from evalplugin.base import secrets as redaction
from evalplugin.base.errors import ConfigError, DataError
from evalplugin.base.secrets import (
    redact,
    redact_message,
    redact_values,
    redact_yaml,
    register_secret,
    register_secrets,
    register_uri,
)
from evalplugin.execution.results import ModelResult


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("postgresql://ann:s3cret@db:5432/ml", "postgresql://***@db:5432/ml"),
        ("uri: mysql+pymysql://ann:p/w@db/ml # main", "uri: mysql+pymysql://***@db/ml # main"),
        ("https://token@host/path", "https://***@host/path"),
        ("'https://a:p@w@host'", "'https://***@host'"),
        ("postgresql://:s3cret@db/ml", "postgresql://***@db/ml"),
        ("s3://bucket/x?token=abc&part=1", "s3://bucket/x?token=***&part=1"),
        ("s3:/bucket/x.yaml?secret_key=abc&part=1", "s3:/bucket/x.yaml?secret_key=***&part=1"),
        ("https://h/x?access_token=abc", "https://h/x?access_token=***"),
        (
            "https://h/x?X-Amz-Credential=AKIA/eu&X-Amz-Date=1&X-Amz-Signature=abc",
            "https://h/x?X-Amz-Credential=***&X-Amz-Date=1&X-Amz-Signature=***",
        ),
        (
            "https://h/x?AWSAccessKeyId=abc&x-goog-signature=def",
            "https://h/x?AWSAccessKeyId=***&x-goog-signature=***",
        ),
        ("  password: hunter2", "  password: ***"),
        ('{db_password: "hunter 2", k: 3}', "{db_password: ***, k: 3}"),
        ("api_key='abc'", "api_key=***"),
        ("apiKey=abc token=def", "apiKey=*** token=***"),
        ("Authorization: Basic YTpi", "Authorization: ***"),
        ("sent Bearer abcdefghijkl.mno to it", "sent Bearer *** to it"),
        ("ghp_0123456789abcdefghijABCDEFGHIJ012345 is mine", "*** is mine"),
        ("url https://hooks.slack.com/services/T0/B0/abc, on", "url https://hooks.slack.com/***, on"),
        ("file:/ann:hidden@/x.csv: no such file", "file:/***@/x.csv: no such file"),
        ("two ftp://a:b@c/ and ftp://d:e@f/", "two ftp://***@c/ and ftp://***@f/"),
    ],
)
def test_redact_hides_credentials(text: str, hidden: str) -> None:
    assert redact(text) == hidden


@pytest.mark.parametrize(
    "text",
    [
        "sqlite:////tmp/mlflow.db",
        "http://127.0.0.1:5000/#/experiments/1",
        "http://host:8080/a@b",
        "metrics: [ndcg@10, recall@10]",
        "config: https://example.org/x and mail to a@b.org",
        "models:/shop@champion: no such alias",
        "file:/home/ann:smith@corp/x.csv",
        "password:",
        "password: ${DB_PASSWORD}",
        "tokens: 3",
        "max_tokens: 3",
    ],
)
def test_redact_leaves_text_without_credentials_unchanged(text: str) -> None:
    assert redact(text) == text
    assert redact_yaml(text) == text


def test_redact_message_leaves_keys_like_password() -> None:
    message = "models[0].params.password: unknown parameter 'password'; see postgresql://a:b@c"
    assert (
        redact_message(message)
        == "models[0].params.password: unknown parameter 'password'; see postgresql://***@c"
    )


@given(
    st.text(
        alphabet=st.characters(codec="ascii", exclude_characters="@:/?#'\" \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"),
        min_size=6,
    )
)
def test_redact_hides_any_uri_password(password: str) -> None:
    assert password not in redact(f"uri: postgresql://ann:{password}@db/x").replace("postgresql", "")


def test_redact_values_hides_by_key_and_by_content() -> None:
    values = {
        "password": "x",
        "k": 3,
        "nested": {"api_key": 5, "uri": "http://a:b@c", "token": "${TOKEN}", "secret": None},
        "list": ["ftp://a:b@c", 1, "--token", "abc", "--user", "ann"],
    }
    assert redact_values(values) == {
        "password": "***",
        "k": 3,
        "nested": {"api_key": "***", "uri": "http://***@c", "token": "${TOKEN}", "secret": None},
        "list": ["ftp://***@c", 1, "--token", "***", "--user", "ann"],
    }


SECRETS = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=8).filter(
    lambda text: len(text.strip()) >= 8 and "***" not in text and "\\" not in text
)


@given(SECRETS)
def test_registered_secret_is_redacted_in_every_encoding(secret: str) -> None:
    redaction._registered.clear()
    register_secret(secret)
    from json import dumps
    from urllib.parse import quote

    for text in (secret, f"at /hook/{quote(secret)}?x", dumps({"a": secret}), repr(secret), f"x={secret},"):
        assert secret not in redact(text)
        assert quote(secret) not in redact(text)
        assert dumps(secret)[1:-1] not in redact(text)


def test_environment_variables_with_secret_names_are_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "correct horse")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false-or-true")
    assert redact("no user 'correct horse' with false-or-true") == "no user '***' with false-or-true"


def test_short_registered_secret_is_not_redacted_inside_words() -> None:
    register_secret("core")
    register_secret("abc")
    assert redact("scores of core, abc") == "scores of ***, abc"


@given(
    st.sampled_from(["'", '"', "|", ">", None]),
    # Hypothesis tries words of the code too, such as "datasets", which stay.
    SECRETS.filter(lambda text: text.isprintable() and not set(text) & set("'\"")).filter(
        lambda text: not any(text in word for word in ("# a comment", "datasets", "experiment"))
    ),
    st.sampled_from(["password", "api_key", "client_secret", "access-token"]),
    st.booleans(),
)
def test_redact_yaml_hides_secrets_in_any_style_and_stays_valid(style, secret, key, flow):
    data: dict[str, Any] = {"experiment": "x", "datasets": [{"type": "sql", key: secret, "k": 3}], "seed": 1}
    text = yaml.dump(data, default_style=style, default_flow_style=flow, allow_unicode=True, width=1000)
    hidden = redact_yaml(f"# a comment\n{text}")
    assert hidden.startswith("# a comment\n")
    assert secret not in hidden
    again = yaml.load(hidden, yaml.BaseLoader)
    assert again["datasets"] == [{"type": "sql", key: "***", "k": "3"}]
    assert again["experiment"] == "x"


def test_redact_yaml_leaves_only_the_host_of_the_notify_url() -> None:
    text = "notify:\n  url: https://example.org/hook/abc  # ours\n  on: [refuse]\nx: &a [1, *a]\n"
    assert redact_yaml(text) == text.replace("https://example.org/hook/abc", '"https://example.org/***"')
    for kept in ("notify: {url: '${HOOK}'}\n", "notify: {apprise: ['${HOOK}']}\n"):
        assert redact_yaml(kept) == kept


def test_addresses_of_apprise_are_hidden_whole() -> None:
    text = "notify:\n  apprise:\n    - slack://T0-hidden/B0-hidden  # ours\n    - mailto://${USER}@h\n  on: [x]\n"
    assert redact_yaml(text) == 'notify:\n  apprise:\n    - "***"  # ours\n    - "***"\n  on: [x]\n'
    register_secrets(
        {"notify": {"apprise": ["slack://T1-hidden/B1-hidden", "mailto://${USER}@h", "${HOOK}", 3]}}
    )
    assert redact("slack://T1-hidden/B1-hidden ${HOOK}") == "slack://*** ${HOOK}"


def test_redact_yaml_hides_multiline_secrets_and_broken_yaml() -> None:
    assert redact_yaml("password: |\n  correct\n  horse\nk: 3\n") == 'password: "***"\nk: 3\n'
    assert redact_yaml("password: correct horse\nk: 3\n") == 'password: "***"\nk: 3\n'
    assert redact_yaml("[\npassword: hunter2") == "[\npassword: ***"


def test_errors_hide_credentials() -> None:
    uri = "postgresql://ann:hunter2@db"
    assert str(DataError(f"not at {uri}")) == "not at postgresql://***@db"
    assert ConfigError([f"not at {uri}"]).lines == ("not at postgresql://***@db",)


def test_failed_model_traceback_hides_credentials() -> None:
    failed = ModelResult(None, "m", "m", {}, error="Traceback:\n  open(password='hunter2')\nOSError: no")
    assert failed.error == "Traceback:\n  open(password=***)\nOSError: no"
    assert failed.failure == "OSError: no"


def test_register_secrets_hides_nested_secrets_wherever_repeated() -> None:
    register_secrets(
        {
            "models": [
                {"params": {"api_key": "hidden-key", "k": 40, "token": "${TOKEN}", "auth": ["hidden", 1]}}
            ],
            "tracking": {"uri": "postgresql://ann:p%40ss-w@db:5432/ml"},
            "notify": {"command": ["tell", "--password", "hidden-option"]},
        }
    )
    text = "hidden-key of 40 as hidden for ann with p@ss-w or p%40ss-w and hidden-option, db, tell, ${TOKEN}"
    assert redact(text) == "*** of 40 as *** for ann with *** or *** and ***, db, tell, ${TOKEN}"
    assert redact_message("hidden-key") == "***"


@pytest.mark.parametrize(
    ("uri", "hidden"),
    [
        ("postgresql://ann:99/s3cret-x@h/db", "postgresql://***@h/db"),
        ("postgresql://ann:p@s3cret-x@h:5432/db", "postgresql://***@h:5432/db"),
        ("s3://AKIAKEYKEY:12/s3cret-x@b/x", "s3://***@b/x"),
        ("s3://b:s3cret-x/x", "s3://b:***/x"),
        ("ann:s3cret-x@host", "***@host"),
        ("postgresql:ann:s3cret-x@host/db", "***@host/db"),
        ("postgresql://ann:p%40s3cret@host/db", "postgresql://***@host/db"),
        ("sqlite:///x.db?key=s3cret-x", "sqlite:///x.db?key=***"),
        ("mssql+pyodbc:///?odbc_connect=DRIVER%3Dx%3BPWD%3Ds3cret-x", "mssql+pyodbc:///?odbc_connect=***"),
        ("https://h/x?X-Amz-Signature=s3cret-x&a=b", "https://h/x?X-Amz-Signature=***&a=b"),
        ("https://ann:s3cret-x@h:5000/a@b", "https://***@h:5000/a@b"),
        ("https://host:8080/team@x", "https://host:8080/team@x"),
        ("http://localhost:5OOO", "http://localhost:5OOO"),
        ("sqlite:////home/ann:smith@corp/mlflow.db", "sqlite:////home/ann:smith@corp/mlflow.db"),
    ],
)
def test_register_uri_hides_its_credentials_wherever_they_are_repeated(uri: str, hidden: str) -> None:
    register_uri(uri)
    assert redact_message(f"{uri} cannot be reached") == f"{hidden} cannot be reached"


@pytest.mark.parametrize("place", ["//ann:p%40s3cret@h/db", "//h/x?X-Amz-Signature=p%40s3cret&a=b"])
def test_register_uri_hides_what_other_libraries_repeat(place: str) -> None:
    register_uri(f"https:{place}")
    assert redact_message("p@s3cret or p%40s3cret is wrong") == "*** or *** is wrong"


def test_register_secrets_hides_everything_after_the_host_of_a_webhook() -> None:
    register_secrets({"notify": {"url": "https://hooks.example.org/services/T0/hidden?x=1"}})
    assert redact("--set notify.url=https://hooks.example.org/services/T0/hidden?x=1") == (
        "--set notify.url=https://hooks.example.org***"
    )
    register_secrets({"notify": {"url": "hooks.example.org/T0/hidden"}})  # not even an address
    assert redact_message("not 'hooks.example.org/T0/hidden'") == "not '***'"
    register_secrets({"notify": {"url": "https://h/${HOOK_PATH}"}})
    assert redact_message("${HOOK_PATH}") == "${HOOK_PATH}"


def test_secrets_that_become_known_later_are_hidden_in_a_config_that_was_read() -> None:
    config = "password: one-secret-word\nnote: another-secret-word  # once\n"
    assert redact_yaml(config) == 'password: "***"\nnote: another-secret-word  # once\n'
    register_secret("another-secret-word")
    assert redact_yaml(config) == 'password: "***"\nnote: ***  # once\n'
