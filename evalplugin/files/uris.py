"""URIs of files: scheme, bucket and path, and the refusal of credentials in a URI."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

from evalplugin.base.errors import DataError
from evalplugin.base.secrets import has_password, redact_message, register_secret, register_uri

GLOB = "glob:"  # begins a pattern of local files, which is not a URI
COMMAND = "command"  # a scheme: only what the config itself names is run, not what is recorded
PROGRAM = "program"  # a scheme: without a fingerprint
MLFLOW_SCHEMES = ("models", "runs", "mlflow-artifacts")
# Of pyarrow's file systems.
STORE_SCHEMES = ("s3", "s3a", "s3n", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss")
URI_SCHEMES = ("file", "http", "https", *STORE_SCHEMES, *MLFLOW_SCHEMES)
_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_URI = re.compile(r"([a-z][a-z0-9+.-]+):(//?)([^/]*)/?(.*)", re.IGNORECASE | re.DOTALL)
_CREDENTIAL = re.compile(r"(?i)[?&;][\w-]*(?:key|secret|token|password|sig|signature|credential)=")
_MIN_NAME = 8  # characters: a shorter user name is part of other words


def scheme_of(text: str) -> str | None:
    """Return the scheme of a URI, in lower case; None for any other text."""
    match = _URI.fullmatch(text)
    return None if match is None or text.startswith(GLOB) else match[1].lower()


def uri_parts(uri: str) -> tuple[str, str, str]:
    """Return scheme, authority (such as the bucket), and the path without a slash before it."""
    match = _URI.fullmatch(uri)
    assert match is not None, uri
    scheme, slashes, authority, path = match[1].lower(), match[2], match[3], match[4]
    if slashes == "/" and scheme in ("hdfs", "viewfs"):  # no server is named
        return scheme, "", f"{authority}/{path}"
    return scheme, authority, path  # pathlib makes one slash of two


def kind_of(scheme: str) -> str:
    """Return the one scheme of a kind of store: ``s3`` for ``s3a``."""
    return _ALIASES.get(scheme, scheme)


def canonical_uri(uri: str) -> str:
    """Return a URI in the one spelling of the object: by the scheme and the bucket that its store has."""
    scheme, authority, path = uri_parts(uri)
    return f"{kind_of(scheme)}://{authority.removeprefix('anonymous@')}/{path}"


def is_remote(name: object) -> bool:
    """Return whether a name is a URI of a file that is not on this machine."""
    return scheme_of(str(name)) not in (None, "file", COMMAND)


def local_path(name: str | Path) -> Path:
    """Return the path of a file on this machine, which may be given as ``file:///folder/file``.

    Raises:
        DataError: It is a ``file`` URI that names a machine or a user.
    """
    text = str(name)
    if scheme_of(text) != "file":
        return Path(name)
    # The client of HTTP that comes with it takes as long as four starts of Python.
    from urllib.request import url2pathname

    try:
        url = urlsplit(text)
        is_local = url.netloc in ("", "localhost")
    except ValueError:  # of brackets that hold no address
        is_local = False
    if not is_local:
        raise DataError(
            f"{redact_message(text)}: names a machine or a user; a file of this machine is file:///folder/file"
        )
    return Path(url2pathname(url.path))


def refuse_credentials(uri: str) -> None:
    """Refuse a URI that has credentials in it, and hide them from now on.

    Raises:
        DataError: It has.
    """
    scheme, authority, _ = uri_parts(uri)
    kind, user = kind_of(scheme), authority.rpartition("@")[0]
    if kind == "s3":
        has_user = "@" in authority or ":" in authority  # a secret key may have a slash in it
    else:
        has_user = ":" in user or (kind == "gs" and user not in ("", "anonymous"))
    has_user = has_user or has_password(uri)
    query = _CREDENTIAL.search(uri)
    if not has_user and query is None:
        return
    register_uri(uri)
    why = "has credentials in it, which would be logged: name it without them"
    if has_user:
        name, *passwords = re.split("[:@]", user or authority)
        for secret in [name] * (len(name) >= _MIN_NAME) + passwords:
            register_secret(secret)
        rest = uri.rpartition("@")[2] if "@" in uri else "..."
        raise DataError(
            f"{scheme}://***@{rest}: {why}; they come from the environment (AWS_ACCESS_KEY_ID, profiles, roles)"
        )
    assert query is not None
    raise DataError(f"{uri[: query.start()]}?***: {why}")
