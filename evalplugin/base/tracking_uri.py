"""The form of a tracking URI: its scheme, host, port and driver."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from evalplugin.base.errors import TrackingUriError, did_you_mean
from evalplugin.base.libraries import sqlalchemy
from evalplugin.base.placeholders import variables_in
from evalplugin.base.secrets import register_uri
from evalplugin.base.text import escape_controls

DATABASES = ("sqlite", "postgresql", "mysql", "mssql", "oracle")
_SCHEMES = ("http", "https", "databricks", *DATABASES)
NO_FOLDERS = (
    "MLflow keeps no runs in plain folders any more; use a database such as sqlite:///mlflow.db, "
    "and bring old runs over with: mlflow migrate-filestore"
)


def store_kind(uri: str) -> str:
    """Return a tracking URI's scheme without a driver, in lower case: ``postgresql`` of ``postgresql+psycopg2://``."""
    if uri == "databricks":
        return uri
    has_scheme = "://" in uri or uri.startswith("file:")
    return uri.partition(":")[0].partition("+")[0].lower() if has_scheme else ""


def check_tracking_uri(uri: str) -> None:
    """Check the form of a tracking URI, and hide its credentials from now on; nothing is connected to.

    Raises:
        TrackingUriError: A plain folder, a database in memory, an unknown kind of store, a malformed host or port.
    """
    register_uri(uri)
    if (problem := _problem_of(uri)) is not None:
        raise TrackingUriError(f"tracking URI {uri!r}{problem}")


def _problem_of(uri: str) -> str | None:
    """Return the fault of a tracking URI, as the end of a message; None if it is well-formed."""
    if escape_controls(uri) != uri or uri != uri.strip() or "\n" in uri:
        return ": has white space around it, or a control character"
    if variables_in(uri):
        return ": variables are not filled in here; leave it out and set MLFLOW_TRACKING_URI"
    scheme = store_kind(uri)
    if scheme in ("", "file"):
        return f" is a plain folder. {NO_FOLDERS}"
    if scheme not in _SCHEMES:
        near = did_you_mean(scheme, _SCHEMES, noun=None)
        return f": {scheme!r} is not a kind of tracking store; allowed: {', '.join(_SCHEMES)}{near}"
    if scheme in ("http", "https"):
        return _problem_of_server(uri)
    if scheme == "sqlite":
        rest = uri.partition("://")[2]
        if rest and not rest.startswith("/"):
            return ": a path follows three slashes, as in sqlite:///mlflow.db"
        if rest.removeprefix("/").partition("?")[0] in ("", ":memory:"):
            return " is a database in memory, which is gone when the program ends"
        if re.search("[?&]uri=", rest):
            return " has a URI of SQLite's own in it: name the file itself, as in sqlite:////data/mlflow.db"
    has_driver = scheme in DATABASES and (scheme != "sqlite" or "+" in uri.partition(":")[0])
    return _problem_of_database(uri) if has_driver else None


def _problem_of_server(uri: str) -> str | None:
    try:
        parts = urlsplit(uri)
        host, _ = parts.hostname, parts.port
    except ValueError:  # whose message quotes a part of the URI, in which no credential is recognised
        return ": its host or port is malformed; it must look like http://host:5000"
    return None if host else ": names no host; it must look like http://host:5000"


def _problem_of_database(uri: str) -> str | None:
    try:
        url = sqlalchemy.make_url(uri)
        url.get_dialect()
    except sqlalchemy.exc.NoSuchModuleError:
        return f": {url.drivername!r} is not a driver that SQLAlchemy knows"
    except (sqlalchemy.exc.ArgumentError, ValueError):
        return ": is malformed; it must look like postgresql://host:5432/mlflow"
    return None


def check_driver(uri: str) -> None:
    """Check that the driver of a tracking URI's database is installed here; the URI is well-formed.

    Raises:
        TrackingUriError: It is not installed.
    """
    scheme = uri.partition(":")[0]
    if scheme == "sqlite" or store_kind(uri) not in DATABASES:
        return
    try:
        sqlalchemy.make_url(uri).get_dialect().import_dbapi()
    except ImportError as error:
        raise TrackingUriError(f"tracking URI {uri!r}: its driver is not installed: {error}") from None
