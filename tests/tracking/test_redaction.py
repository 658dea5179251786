"""No credentials in what is logged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalplugin.tracking.redaction import redact, redact_values


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("postgresql://ann:s3cret@db:5432/ml", "postgresql://***@db:5432/ml"),
        ("uri: mysql+pymysql://ann:p/w@db/ml # main", "uri: mysql+pymysql://***@db/ml # main"),
        ("https://token@host/path", "https://***@host/path"),
        ("'https://a:p@w@host'", "'https://***@host'"),
        ("postgresql://:s3cret@db/ml", "postgresql://***@db/ml"),
        ("s3://bucket/x?token=abc&part=1", "s3://bucket/x?token=***&part=1"),
        ("  password: hunter2", "  password: ***"),
        ('{db_password: "hunter 2", k: 3}', "{db_password: ***, k: 3}"),
        ("api_key='abc'", "api_key=***"),
        ("two ftp://a:b@c/ and ftp://d:e@f/", "two ftp://***@c/ and ftp://***@f/"),
    ],
)
def test_credentials_are_hidden(text: str, hidden: str) -> None:
    assert redact(text) == hidden


@pytest.mark.parametrize(
    "text",
    [
        "sqlite:////tmp/mlflow.db",
        "http://127.0.0.1:5000/#/experiments/1",
        "http://host:8080/a@b",
        "metrics: [ndcg@10, recall@10]",
        "config: https://example.org/x and mail to a@b.org",
        "password:",
        "tokens: 3",
    ],
)
def test_text_without_credentials_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


@given(
    st.text(
        alphabet=st.characters(codec="ascii", exclude_characters="@:/?#'\" \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"),
        min_size=6,
    )
)
def test_no_password_of_a_uri_survives(password: str) -> None:
    assert password not in redact(f"uri: postgresql://ann:{password}@db/x").replace("postgresql", "")


def test_values_are_hidden_by_key_and_by_content() -> None:
    values = {
        "password": "x",
        "k": 3,
        "nested": {"api_key": 5, "uri": "http://a:b@c"},
        "list": ["ftp://a:b@c", 1],
    }
    assert redact_values(values) == {
        "password": "***",
        "k": 3,
        "nested": {"api_key": "***", "uri": "http://***@c"},
        "list": ["ftp://***@c", 1],
    }
