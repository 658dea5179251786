"""Fingerprints of URIs, from what their servers say, and of commands that print a version."""

from __future__ import annotations

import hashlib
import shlex
import subprocess

from evalplugin.base.errors import DataError
from evalplugin.base.libraries import requests
from evalplugin.base.processes import with_output
from evalplugin.base.secrets import redact, redact_message
from evalplugin.files.remote import objects_at, version_of
from evalplugin.files.uris import COMMAND, PROGRAM, scheme_of

_SECONDS = 10.0  # for an answer of a server
_COMMAND_SECONDS = 60.0
_MAX_OBJECTS = 10_000


def uri_fingerprint(uri: str) -> str:
    """Return a text that changes with the content of a URI: its ETag, or its objects' sizes and times.

    For a command (see ``command_input``), it is a hash of its output.

    Raises:
        DataError: The server does not say, cannot be reached, or is of another kind; a command fails; or it is a
            program without a version.
    """
    scheme = scheme_of(uri)
    if scheme == PROGRAM:
        raise DataError(
            f"it cannot be known what the program {uri.removeprefix(f'{PROGRAM}:')} reads: give the model a `version`, "
            f"or put the program into a folder of its own below that of the config"
        )
    if scheme == COMMAND:
        return _of_command(uri)
    if scheme in ("http", "https"):
        return _of_headers(uri)
    return _of_objects(uri)


def unknowable(uri: str, reason: object) -> DataError:
    """Return the error that it cannot be known whether the content of a URI has changed."""
    text = " ".join(redact_message(str(reason)).split())
    return DataError(f"{redact(uri)}: it cannot be known whether its content has changed: {text[:300]}")


def _of_command(name: str) -> str:
    folder, *words = shlex.split(name.removeprefix(f"{COMMAND}:/"))
    shown = f"the command {shlex.join(words)}"
    try:
        done = subprocess.run(
            words,
            cwd=f"/{folder}",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
    except OSError as error:
        raise DataError(f"{shown} cannot be started: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise DataError(f"{shown} took more than {_COMMAND_SECONDS:g} s") from None
    if done.returncode != 0:
        output = (done.stdout + done.stderr).decode(errors="backslashreplace")
        raise DataError(with_output(f"{shown} failed with exit code {done.returncode}", output))
    if not done.stdout.strip():
        raise DataError(f"{shown} printed nothing to stdout, which would be the version")
    return hashlib.sha256(done.stdout).hexdigest()[:32]


def _of_headers(uri: str) -> str:
    try:
        answer = requests.head(uri, timeout=_SECONDS, allow_redirects=True)
        answer.raise_for_status()
    except (requests.RequestException, ValueError) as error:
        raise unknowable(uri, error) from None
    headers = answer.headers
    if "ETag" not in headers and "Last-Modified" not in headers:
        raise unknowable(uri, "the server sends neither ETag nor Last-Modified")
    return headers.get("ETag") or f"{headers.get('Last-Modified')}, {headers.get('Content-Length')} bytes"


def _of_objects(uri: str) -> str:
    try:
        files = objects_at(uri)
        if [file.uri for file in files] == [uri]:
            return version_of(files[0])
    except DataError as error:
        raise unknowable(uri, str(error).removeprefix(f"{uri}: ")) from None
    if len(files) > _MAX_OBJECTS:
        raise unknowable(uri, f"there are more than {_MAX_OBJECTS:,} objects below it")
    lines = [f"{file.uri} {file.size} {file.modified}" for file in files]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32] if files else "missing"
