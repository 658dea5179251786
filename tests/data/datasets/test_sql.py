"""The dataset ``sql``: rows of real databases as interactions, in chunks, and every failure as one message."""

from __future__ import annotations

import socket
import sqlite3
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import small_config, write_config
from sqlalchemy import Connection, create_engine, event
from sqlalchemy.engine import Engine
from sqlalchemy.pool import NullPool

from evalplugin.base.errors import ConfigError, DataError
from evalplugin.cli import main
from evalplugin.data import Interactions, LoadContext, Sql
from evalplugin.data.datasets import sql
from evalplugin.features.config import load

SECRET = "the-password-of-the-shop"
ROWS = [
    (user, item, (user + item) % 5 + 0.5, 1_700_000_000 + item) for user in range(20) for item in range(10)
]


NAMES = {"user": "user_id", "item": "item_id", "rating": "stars", "timestamp": "time"}


@pytest.fixture
def shop() -> Path:
    """A SQLite database beside the config, with a table of ratings."""
    with sqlite3.connect("shop.db") as connection:
        connection.execute(
            "CREATE TABLE ratings (user_id INTEGER, item_id INTEGER, stars REAL, time INTEGER)"
        )
        connection.executemany("INSERT INTO ratings VALUES (?, ?, ?, ?)", ROWS)
    return Path("shop.db").absolute()


def dataset(query: str = "SELECT * FROM ratings", url: str = "sqlite:///shop.db", **options: Any) -> Sql:
    return Sql(url, query, **{**NAMES, **options})


def loaded(*args: Any, **options: Any) -> Interactions:
    return dataset(*args, **options).load(LoadContext())


def refusal(*args: Any, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        loaded(*args, **options)
    return str(caught.value)


def test_rows_become_interactions(shop: Path) -> None:
    data = loaded()
    frame = data.to_frame().sort_values(["user", "item"])
    assert [tuple(row) for row in frame.itertuples(index=False)] == ROWS


def test_the_order_in_which_a_database_returns_rows_does_not_count(shop: Path) -> None:
    one, other = (
        loaded(f"SELECT * FROM ratings ORDER BY {order}") for order in ("stars", "time DESC, user_id")
    )
    assert one.digest == other.digest
    assert (np.diff(one.timestamp) >= 0).all()


def test_columns_of_clusters_are_read_too(shop: Path) -> None:
    query = "SELECT *, 'v' || (user_id / 7) AS visitor FROM ratings"
    data = dataset(query).load(LoadContext(user_columns=("visitor",)))
    assert data.user_columns["visitor"].tolist() == [f"v{user // 7}" for user in range(20)]
    assert data.digest == dataset().load(LoadContext()).digest
    with pytest.raises(DataError, match=r"no cluster column 'visitr'; did you mean 'visitor'\?"):
        dataset(query).load(LoadContext(user_columns=("visitr",)))


def test_rows_are_read_in_chunks(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "_CHUNK", 30)
    reports: list[str] = []
    data = dataset().load(LoadContext(report=lambda text, share: reports.append(text.rpartition(": ")[2])))
    assert reports == [f"{rows} rows" for rows in (30, 60, 90, 120, 150, 180, 200)]
    assert data.digest == loaded().digest


def test_a_relative_file_is_beside_the_config(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert len(dataset().load(LoadContext(base=shop.parent))) == len(ROWS)


def test_the_url_comes_from_the_environment(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_DATABASE", f"sqlite:///{shop}")
    assert len(loaded(url="${SHOP_DATABASE}")) == len(ROWS)


def test_times_of_sqlite_may_be_text(shop: Path) -> None:
    query = "SELECT user_id, item_id, stars, datetime(time, 'unixepoch') AS time FROM ratings"
    assert loaded(query).digest == loaded().digest
    with_zone = query.replace("'unixepoch')", "'unixepoch') || 'Z'")
    assert loaded(with_zone).digest == loaded().digest


@pytest.mark.parametrize("digits", [3, 6, 9])
def test_times_of_sqlite_keep_their_fractions(shop: Path, digits: int) -> None:
    places = f"printf('%0{digits}d', rowid)"
    seconds = f"SELECT user_id, item_id, stars, time + rowid / 1e{digits} AS time FROM ratings"
    text = (
        f"SELECT user_id, item_id, stars, datetime(time, 'unixepoch') || '.' || {places} AS time FROM ratings"
    )
    data = loaded(text)
    assert data.ticks_per_second == 10**digits
    assert (np.diff(data.time) >= 0).all()
    assert sorted((data.time % 10**digits).tolist()) == list(range(1, len(ROWS) + 1))
    assert data.notes == ()
    if digits < 9:  # float64 has no nanoseconds of today
        assert loaded(seconds).digest == data.digest


def test_the_last_of_repeated_pairs_is_the_latest(shop: Path) -> None:
    query = "SELECT * FROM ratings UNION ALL SELECT 0, 0, 3.5, 1600000000"
    assert "user 0 meets item 0 more than once: row (0, 0, 3.5, 1600000000)" in refusal(query)
    data = loaded(query, duplicates="last")
    assert data.digest == loaded().digest


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "SELECT user_id AS usr_id, item_id, stars, time FROM ratings",
            "returns no user column 'user_id'; did you mean 'usr_id'?",
        ),
        ("SELECT *, item_id FROM ratings", "the query returns 2 columns are called 'item_id' (item)"),
        ("SELECT * FROM rating", "shop.db: the query fails: no such table: rating"),
        ("DELETE FROM ratings", "shop.db: the query fails: This result object does not return rows"),
        ("SELECT * FROM ratings WHERE 1 = 0", "shop.db: there are no rows"),
        (
            "SELECT user_id, item_id, CASE WHEN user_id = 3 THEN NULL ELSE stars END AS stars, time FROM ratings",
            "column 'stars', row (3, 0, None, 1700000000) is empty, and 9 more rows: no rating may be missing",
        ),
        (
            "SELECT CASE WHEN user_id = 3 THEN 'x3' ELSE user_id END AS user_id, item_id, stars, time FROM ratings",
            "a column has values of several types, CAST it in the query: Could not convert 'x3'",
        ),
    ],
)  # fmt: skip
def test_a_query_that_does_not_suit_is_an_error_that_says_why(shop: Path, query: str, message: str) -> None:
    assert message in refusal(query)
    with sqlite3.connect(shop) as connection:  # nothing is committed
        assert connection.execute("SELECT count(*) FROM ratings").fetchone() == (len(ROWS),)


def test_ids_that_change_their_type_from_chunk_to_chunk_are_refused(shop, monkeypatch):
    monkeypatch.setattr(sql, "_CHUNK", 10)
    query = "SELECT CASE WHEN user_id = 3 THEN 'x3' ELSE user_id END AS user_id, item_id, stars, time FROM ratings"
    assert "CAST it in the query" in refusal(query + " ORDER BY user_id")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("${SHOP_DATABASE}", "environment variable not set: SHOP_DATABASE"),
        ("shop.db", "shop.db is not the URL of a database that SQLAlchemy has a dialect for"),
        ("postgres://db/shop", "it must look like postgresql://host:5432/shop"),
        ("mysql+pymysql://db/shop", "the driver of mysql+pymysql is not installed: No module named 'pymysql'"),
        ("sqlite:///shops.db", "file not found: "),
        (f"postgresql://reader:{SECRET}@db/shop", "has a password in it, which would be logged"),
        (f"postgresql://db/shop?password={SECRET}", "has a password in it, which would be logged"),
    ],
)  # fmt: skip
def test_a_url_that_cannot_be_used_is_found_before_any_work(shop: Path, url: str, message: str) -> None:
    (problem,) = dataset(url=url).check(LoadContext())
    assert problem.path == ("url",)
    assert message in problem.message
    assert SECRET not in problem.message
    assert not Path("shops.db").exists()


def test_rows_have_a_last_one_only_by_time(shop: Path) -> None:
    (problem,) = dataset(timestamp=None, duplicates="last").check(LoadContext())
    assert problem.path == ("duplicates",)


def config(**options: Any) -> str:
    given = {"name": "shop", "type": "sql", "url": "sqlite:///shop.db", "query": "SELECT * FROM ratings"}
    shop = {**given, **NAMES, **options}
    return write_config(small_config(datasets=[shop], models=["popularity"], compare={}, relevance={}))


def test_a_bakeoff_reads_a_database_and_keeps_its_password(shop, store, monkeypatch, capsys):
    # SQLite has no passwords; its driver takes this word from the URL and does not use it.
    monkeypatch.setenv("SHOP_DATABASE", f"sqlite:///file:{shop}?mode=ro&uri=true&token={SECRET}")
    assert main(["run", config(url="${SHOP_DATABASE}")]) == 0
    printed = capsys.readouterr()
    assert SECRET not in printed.out + printed.err
    for file in [store, *Path(".evalplugin").rglob("*"), *Path("mlartifacts").rglob("*")]:
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file
    assert main(["run", "shop.yaml"]) == 0
    assert "1 of 1 tasks are in the store" in capsys.readouterr().err
    with sqlite3.connect(shop) as connection:
        connection.execute("DELETE FROM ratings WHERE user_id = 3")
    assert main(["run", "shop.yaml"]) == 0
    assert "are in the store" not in capsys.readouterr().err


def test_an_error_has_its_place_in_the_config(shop: Path) -> None:
    with pytest.raises(ConfigError, match=r"datasets\[0\].url: environment variable not set: SHOP_DATABASE"):
        load(Path(config(url="${SHOP_DATABASE}")))


def test_a_database_that_refuses_connections_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        monkeypatch.setenv("SHOP_DATABASE", f"postgresql+psycopg2://reader:{SECRET}@127.0.0.1:{port}/shop")
        message = refusal(url="${SHOP_DATABASE}")
    assert f"postgresql+psycopg2://127.0.0.1:{port}/shop: cannot connect to the database: " in message
    assert "Connection refused" in message
    assert SECRET not in message


@pytest.fixture
def server(database: str) -> Iterator[Connection]:
    """A connection to a PostgreSQL database with an empty table."""
    with create_engine(database, poolclass=NullPool).connect() as connection:
        connection.exec_driver_sql(
            "CREATE TABLE ratings (user_id uuid, item_id bigint, stars numeric(3, 1), time timestamptz, kind text)"
        )
        yield connection
        connection.exec_driver_sql("DROP TABLE ratings")
        connection.commit()


@pytest.mark.server
def test_postgresql_is_read_through_a_cursor_of_the_server(server, database, monkeypatch):
    zone = timezone(timedelta(hours=2))
    for user, item, stars, time in ROWS:
        values = (f"00000000-0000-0000-0000-{user:012}", item, stars, datetime.fromtimestamp(time, zone))
        server.exec_driver_sql("INSERT INTO ratings VALUES (%s, %s, %s, %s, '100%% cotton')", values)
    server.commit()
    monkeypatch.setattr(sql, "_CHUNK", 30)
    cursors: list[Any] = []

    def note(connection: Any, cursor: Any, *rest: Any) -> None:
        cursors.append(cursor.name)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        # Percent signs and colons have no meaning.
        data = loaded("SELECT * FROM ratings WHERE kind LIKE '100%' AND 'a:b' LIKE '%:b'", url=database)
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert cursors[-1] is not None  # only cursors of the server have a name
    frame = data.to_frame().sort_values(["user", "item"])
    expected = [(f"00000000-0000-0000-0000-{user:012}", *rest) for user, *rest in ROWS]
    assert [tuple(row) for row in frame.itertuples(index=False)] == expected
    message = refusal("SELECT user_id FROM rating", url=database)
    assert 'the query fails: relation "rating" does not exist' in message


@pytest.mark.server
def test_integers_of_postgresqls_numeric_are_ids(database: str) -> None:
    query = "SELECT 7::numeric AS user_id, 8::numeric AS item_id, 4.5 AS stars, now() AS time"
    data = loaded(query, url=database)
    assert (data.users.tolist(), data.items.tolist(), data.rating.tolist()) == ([7], [8], [4.5])
    message = refusal(query.replace("7::", "7.5::"), url=database)
    assert "user ids must be integers or text, not floats" in message
