"""The dataset ``sql``: the rows that a database returns for a query."""

from __future__ import annotations

import uuid
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from evalplugin.base.errors import DataError, EvalpluginError, Problem, did_you_mean
from evalplugin.base.libraries import pa
from evalplugin.base.placeholders import filled, unset_problem
from evalplugin.base.secrets import has_credentials, register_uri
from evalplugin.base.text import shorten
from evalplugin.components.parameters import Field
from evalplugin.data.base import LoadContext, dataset
from evalplugin.data.datasets.tables import ColumnOptions
from evalplugin.data.files import find_files
from evalplugin.data.formats import with_times
from evalplugin.data.interactions import Interactions
from evalplugin.data.tables import Table, columns_problem

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection

_CHUNK = 50_000  # rows that are in memory as Python objects
_CONNECT_SECONDS = 10
_WITH_TIMEOUT = ("psycopg2", "psycopg", "mysqldb", "pymysql")  # drivers that take connect_timeout
_DIALECTS = ("sqlite", "postgresql", "mysql", "mariadb", "mssql", "oracle")  # of SQLAlchemy itself
# Packages of other dialects, and of drivers whose module has another name.
_PACKAGES = {
    "bigquery": "sqlalchemy-bigquery",
    "duckdb": "duckdb-engine",
    "snowflake": "snowflake-sqlalchemy",
    "psycopg": "'psycopg[binary]'",
    "psycopg2": "psycopg2-binary",
    "MySQLdb": "mysqlclient",
}


@dataclass(frozen=True)
class _Source:
    url: str  # in a separate base, as the fields of the last base come first
    query: str


@dataset("sql")
@dataclass(frozen=True)
class Sql(ColumnOptions, _Source):
    """Interactions from a database, by a query: PostgreSQL, SQLite, and others that SQLAlchemy has a dialect for.

    The rows are read in chunks through a cursor of the server, and are sorted by time, user, item and rating: a
    database returns them in any order. Nothing is committed.
    """

    url: Annotated[
        str,
        Field(
            min_length=1,
            description="SQLAlchemy URL of the database, from an environment variable: ${SHOP_DATABASE}; "
            "a URL without a password may stand here",
        ),
    ]
    query: Annotated[str, Field(min_length=1, description="a SELECT that returns the columns named here")]

    def check(self, context: LoadContext) -> list[Problem]:
        """Return the problems of the URL and of the tables of items and users; nothing is connected to."""
        problems = super().check(context)
        if self.duplicates == "last" and self.timestamp is None:
            message = (
                "rows of a database have no last one without a timestamp: name its column, or use mean or max"
            )
            problems.append(Problem(("duplicates",), message))
        try:
            self._address(context.base)
        except DataError as error:
            problems.append(Problem(("url",), str(error)))
        return problems

    def load(self, context: LoadContext) -> Interactions:
        """Return the interactions of the rows, in order of time, user, item and rating.

        Raises:
            DataError: No answer from the database, a query that fails or lacks a column, rows that break a rule.
        """
        url = self._address(context.base)
        shown = type(url).create(url.drivername, host=url.host, port=url.port, database=url.database)
        name = shown.render_as_string()
        with _connection(url, name) as connection:
            table, roles, columns = self._read(connection, name, context)
        table = with_times(table, self.timestamp)
        order = dict.fromkeys(
            roles[role] for role in ("timestamp", "user", "item", "rating", "part") if role in roles
        )
        with suppress(pa.ArrowNotImplementedError):  # types without an order, which are refused below
            table = table.sort_by([(column, "ascending") for column in order])

        def row_name(row: int) -> str:
            return f"row {tuple(value.as_py() for value in (table.column(c)[row] for c in roles.values()))}"

        return self.interactions(Table(table, name, row_name), roles, columns, context)

    def _address(self, base: Path) -> URL:
        """Return the database's URL, whose credentials are redacted from now on.

        Raises:
            DataError: A variable is not set, the URL has a password in it or is malformed, or its driver is missing.
        """
        from sqlalchemy.engine import make_url
        from sqlalchemy.exc import ArgumentError, NoSuchModuleError

        if has_credentials(self.url):
            register_uri(self.url)
            raise DataError(
                "has a password in it, which would be logged: put the URL into an environment variable, "
                "and name it here, such as ${SHOP_DATABASE}"
            )
        if problem := unset_problem(self.url):
            raise DataError(problem)
        text = filled(self.url)
        register_uri(text)
        kind = text.partition(":")[0].partition("+")[0]
        try:
            url = make_url(text)
            url.get_dialect().import_dbapi()
        except NoSuchModuleError:
            near = did_you_mean(kind, [*_DIALECTS, *_PACKAGES], noun=None)
            install = f": pip install {_PACKAGES[kind]}" if kind in _PACKAGES else near
            raise DataError(
                f"{kind!r} is not a database that SQLAlchemy has a dialect for here{install}"
            ) from None
        except (ArgumentError, ValueError):  # whose message repeats the URL
            raise DataError(
                f"{self.url} is not the URL of a database; it must look like postgresql://host:5432/shop"
            ) from None
        except ImportError as error:
            package = _PACKAGES.get(error.name or "", error.name)
            raise DataError(
                f"the driver of {url.drivername} is not installed: pip install {package}"
            ) from None
        return _with_file(url, base) if kind in ("sqlite", "duckdb") else url

    def _read(
        self, connection: Connection, name: str, context: LoadContext
    ) -> tuple[pa.Table, dict[str, str], Sequence[str]]:
        """Return the rows of the query as one table of the columns with a role, these by role, and all columns."""
        # Without parameters, a driver takes the text as it is: % and : have no meaning.
        options = {"stream_results": True, "yield_per": _CHUNK, "no_parameters": True}
        with _failing(f"{name}: the query fails"):
            result = connection.execution_options(**options).exec_driver_sql(self.query)
            if not result.returns_rows:
                raise DataError(f"{name}: the query returns no rows, which a SELECT does")
            columns = list(map(str, result.keys()))
        if problem := columns_problem(self.roles, columns):
            raise DataError(f"{name}: the query returns {problem}")
        roles = self.roles_for(name, columns, context)
        result = result.columns(*(columns.index(column) for column in roles.values()))
        chunks: list[pa.Table] = []
        rows = 0
        with _failing(f"{name}: the query fails"):
            for chunk in result.partitions(_CHUNK):
                arrays = [
                    _array(role, column, values, name)
                    for (role, column), values in zip(roles.items(), zip(*chunk, strict=True), strict=True)
                ]
                chunks.append(pa.table(arrays, names=list(roles.values())))
                rows += len(chunk)
                context.report(f"reading {name}: {rows:,} rows", None)
        if not chunks:
            raise DataError(f"{name}: there are no rows")
        try:
            return pa.concat_tables(chunks, promote_options="permissive").combine_chunks(), roles, columns
        except pa.ArrowException as error:
            raise DataError(
                f"{name}: a column has values of several types: {error}; CAST it in the query"
            ) from None


def _with_file(url: URL, base: Path) -> URL:
    """Return the URL of a database in a file with its absolute path: a driver would create a missing file.

    Raises:
        DataError: There is no such file, or it is SQLite in memory, where nothing can be.
    """
    file = url.database
    if file and file != ":memory:" and not file.startswith(("file:", "md:")):
        return url.set(database=str(find_files(base, file).files[0]))
    if not (file or "").startswith("file:") and url.get_backend_name() == "sqlite":
        raise DataError("a database in memory has no tables; name a file, as in sqlite:///shop.db")
    return url


@contextmanager
def _connection(url: URL, name: str) -> Generator[Connection]:
    """Yield a connection, which is closed without a commit.

    Raises:
        DataError: The database does not answer, or refuses.
    """
    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    arguments: dict[str, Any] = {}
    if url.get_driver_name() in _WITH_TIMEOUT and "connect_timeout" not in url.query:
        arguments = {"connect_timeout": _CONNECT_SECONDS}
    with _failing(f"{name}: cannot connect to the database"):
        connection = create_engine(url, poolclass=NullPool, connect_args=arguments).connect()
    try:
        yield connection
    finally:
        with suppress(Exception):  # of a connection that is lost already
            connection.close()


@contextmanager
def _failing(what: str) -> Generator[None]:
    """Turn an error of a database's driver into a DataError; drivers share no class of errors."""
    try:
        yield
    except EvalpluginError:  # an error in the rows
        raise
    except Exception as error:  # noqa: BLE001 - whatever a driver raises
        text = " ".join(str(getattr(error, "orig", None) or error).split())
        raise DataError(f"{what}: {shorten(text or type(error).__name__, 300)}") from None


def _array(role: str, column: str, values: Sequence[Any], name: str) -> pa.Array:
    """Return values of a driver as an Arrow array: decimals as numbers, UUIDs as text."""
    kinds = {type(value) for value in values}
    if uuid.UUID in kinds:
        values = [None if value is None else str(value) for value in values]
    if Decimal in kinds:
        number = float if role == "rating" or any(value % 1 for value in values if value is not None) else int
        values = [None if value is None else number(value) for value in values]
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        kinds.discard(type(None))
        listed = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise DataError(
            f"{name}: column {column!r} has values of the types {listed}: {error}; CAST it in the query"
        ) from None
