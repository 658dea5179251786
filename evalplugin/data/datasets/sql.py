"""The dataset ``sql``: the rows that a database returns for a query."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

from pydantic import Field

from evalplugin.base.errors import DataError, EvalpluginError, Problem
from evalplugin.base.libraries import pa, pd, sqlalchemy
from evalplugin.base.placeholders import filled, unset_problem
from evalplugin.base.secrets import has_credentials, register_uri
from evalplugin.base.text import shorten
from evalplugin.data.base import LoadContext, dataset
from evalplugin.data.datasets.tables import ColumnOptions
from evalplugin.data.files import find_files
from evalplugin.data.formats import with_times
from evalplugin.data.interactions import Interactions
from evalplugin.data.tables import Table, columns_problem

if TYPE_CHECKING:
    from sqlalchemy import URL

_CHUNK = 50_000  # rows that are in memory as Python objects


@dataclass(frozen=True)
class _Source:
    url: str  # in a separate base, as the fields of the last base come first
    query: str


@dataset("sql")
@dataclass(frozen=True)
class Sql(ColumnOptions, _Source):
    """Interactions from a database, by a query: PostgreSQL, SQLite, and others that SQLAlchemy has a dialect for.

    Rows are read in chunks, and sorted by time, user, item and rating. Nothing is committed.
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
        columns: list[str] = []
        roles: dict[str, str] = {}
        chunks: list[pa.Table] = []
        for frame in _frames(url, self.query, name):
            if not columns:
                columns = list(map(str, frame.columns))
                if problem := columns_problem(self.roles, columns):
                    raise DataError(f"{name}: the query returns {problem}")
                roles = self.roles_for(name, columns, context)
            with _failing(f"{name}: a column has values of several types, CAST it in the query"):
                rows = Table(frame[list(roles.values())].map(_plain), name)
                chunks.append(pa.table({column: rows.arrow(column) for column in roles.values()}))
            context.report(f"reading {name}: {sum(map(len, chunks)):,} rows", None)
        with _failing(f"{name}: a column has values of several types, CAST it in the query"):
            table = pa.concat_tables(chunks, promote_options="permissive").combine_chunks()
        table = with_times(table, self.timestamp)
        sorting = ("timestamp", "decision", "user", "item", "rating", "part")
        order = dict.fromkeys(roles[role] for role in sorting if role in roles)
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
        try:
            url = sqlalchemy.make_url(text)
            url.get_dialect().import_dbapi()
        except ImportError as error:
            raise DataError(f"the driver of {url.drivername} is not installed: {error}") from None
        except Exception:  # noqa: BLE001 - a malformed URL, whose error repeats it
            raise DataError(
                f"{self.url} is not the URL of a database that SQLAlchemy has a dialect for here; it must look like "
                f"postgresql://host:5432/shop"
            ) from None
        file = url.database
        if (
            url.get_backend_name() not in ("sqlite", "duckdb")
            or not file
            or file.startswith(("file:", "md:"))
        ):
            return url
        return url.set(database=str(find_files(base, file).files[0]))  # a driver would create a missing file


def _frames(url: URL, query: str, name: str) -> Generator[pd.DataFrame]:
    """Yield the rows of a query in chunks; nothing is committed.

    Raises:
        DataError: The database does not answer, or the query fails.
    """
    with _failing(f"{name}: cannot connect to the database"):
        connection = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool).connect()
    with connection, _failing(f"{name}: the query fails"):
        # Without parameters, a driver takes the text as it is: % and : have no meaning.
        connection = connection.execution_options(stream_results=True, no_parameters=True)
        yield from pd.read_sql(query, connection, coerce_float=False, chunksize=_CHUNK)


@contextmanager
def _failing(problem: str) -> Generator[None]:
    """Turn an error of a database's driver into a DataError; drivers share no class of errors."""
    try:
        yield
    except EvalpluginError:  # an error in the rows
        raise
    except Exception as error:  # noqa: BLE001 - whatever a driver raises
        cause = error.__cause__ or error  # pandas repeats the query
        text = " ".join(str(getattr(cause, "orig", None) or cause).split())
        raise DataError(f"{problem}: {shorten(text or type(error).__name__, 300)}") from None


def _plain(value: Any) -> Any:
    """Return a value of a driver as one that Arrow has: UUIDs as text, decimals as numbers."""
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Decimal):
        return float(value) if value % 1 else int(value)
    return value
