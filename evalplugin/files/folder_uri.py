"""The form of the URI of a folder that files are written to."""

from __future__ import annotations

from evalplugin.base.errors import DataError
from evalplugin.base.placeholders import variables_in
from evalplugin.base.text import escape_controls
from evalplugin.files.inputs import scheme_of
from evalplugin.files.stores import is_remote, refuse_credentials

__all__ = ["check_folder_uri"]

_ALLOWED = "a folder, or a URI such as s3://bucket/folder (or gs:, abfs:, hdfs:)"
_NOT_WRITTEN = ("http", "https", "models", "runs", "mlflow-artifacts", "sqlite", "postgresql", "mysql")


def check_folder_uri(uri: str) -> None:
    """Check the form of a folder's path or URI; nothing is connected to.

    Raises:
        DataError: No folder, white space around it, variables, credentials, or a scheme that nothing is written to.
    """
    if escape_controls(uri) != uri or uri != uri.strip() or not uri:
        raise DataError(f"{uri!r}: is empty, has white space around it, or a control character")
    if variables_in(uri):
        raise DataError(f"{uri!r}: variables are not filled in here; credentials come from the environment")
    scheme = scheme_of(uri)
    if scheme in _NOT_WRITTEN:
        raise DataError(f"{uri!r}: nothing is written to {scheme}:; allowed: {_ALLOWED}")
    if is_remote(uri):
        refuse_credentials(uri)
