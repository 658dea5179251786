"""Object stores and file systems that URIs name: opened by pyarrow, or else by fsspec, without credentials in a URI."""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass
from datetime import timedelta

from evalplugin.base.errors import DataError, EvalpluginError, did_you_mean, how_to_install
from evalplugin.base.libraries import fs, pa
from evalplugin.base.text import shorten
from evalplugin.files.uris import MLFLOW_SCHEMES, STORE_SCHEMES, kind_of, refuse_credentials, uri_parts

_AWS_ERROR = re.compile(
    r"AWS Error (\w+)(?: \(HTTP status (-?\d+)\))? during (\w+) operation:? ?(.*)", re.DOTALL
)
_DENIED = (
    "ACCESS_DENIED",
    "INVALID_ACCESS_KEY_ID",
    "SIGNATURE_DOES_NOT_MATCH",
    "EXPIRED_TOKEN",
    "INVALID_TOKEN",
)
_MISSING = ("NO_SUCH_KEY", "RESOURCE_NOT_FOUND")
_CONNECT_SECONDS = 2.0
_SILENT_SECONDS = 10.0  # an attempt without a byte from the server ends
_GOOGLE_SECONDS = 10.0  # for all attempts of a request; without this, a quarter of an hour
_ATTEMPTS = 4  # of each request, with growing pauses; AWS_MAX_ATTEMPTS wins
# Kinds of stores with buckets, in which an object appears when it is complete.
_BUCKETS = ("s3", "gs", "abfs", "abfss")


@dataclass(frozen=True)
class FileStore:
    """One bucket, container or server."""

    files: fs.FileSystem
    kind: str  # a scheme that pyarrow opens, or ``fsspec``
    root: str  # as URIs begin, such as ``s3://bucket``
    base: str  # as paths of ``files`` begin, such as ``bucket``

    @property
    def has_buckets(self) -> bool:
        """Whether ``base`` is a bucket, and an object appears in it at once, when it is closed."""
        return self.kind in _BUCKETS

    def path_of(self, uri: str) -> str:
        """Return the path of a URI in ``files``."""
        return f"{self.base}/{uri_parts(uri)[2]}".rstrip("/")

    def uri_of(self, path: str) -> str:
        """Return the URI of a path in ``files``."""
        return f"{self.root}/{path.removeprefix(self.base).lstrip('/')}"


def store_of(uri: str) -> FileStore:
    """Return the store of a URI; each is opened once in a process.

    Raises:
        DataError: The scheme is unknown, its package is missing, the URI has credentials in it or names no store.
    """
    scheme, authority, _ = uri_parts(uri)
    refuse_credentials(uri)
    if scheme in MLFLOW_SCHEMES:
        raise DataError(
            f"{uri}: is a URI of MLflow, from which no tables are read; name a file, or s3://bucket/key"
        )
    if not authority and scheme in _BUCKETS:
        raise DataError(f"{uri}: names no bucket; a URI is such as {scheme}://bucket/folder/file.parquet")
    settings = tuple(sorted((k, v) for k, v in os.environ.items() if k.startswith("AWS_")))
    return _opened(scheme, authority, settings)


@functools.lru_cache(maxsize=32)
def _opened(scheme: str, authority: str, settings: tuple[tuple[str, str], ...]) -> FileStore:
    root, kind = f"{scheme}://{authority}", kind_of(scheme)
    try:
        if kind == "s3":
            return FileStore(_s3(authority), kind, root, authority)
        if kind == "gs":
            user, _, bucket = authority.rpartition("@")
            limit = timedelta(seconds=_GOOGLE_SECONDS)
            google = fs.GcsFileSystem(anonymous=user == "anonymous", retry_time_limit=limit)
            return FileStore(google, kind, root, bucket)
        if scheme in STORE_SCHEMES:
            files, base = fs.FileSystem.from_uri(f"{kind}://{authority}/")
            return FileStore(files, kind, root, base.rstrip("/"))
    except (pa.ArrowException, OSError, ValueError, NotImplementedError) as error:
        reason = store_reason(error, root) or shorten(" ".join(str(error).split()), 200)
        if kind in ("hdfs", "viewfs"):
            reason += "; HDFS needs Java and Hadoop's libhdfs (JAVA_HOME, HADOOP_HOME, CLASSPATH)"
        raise DataError(f"{root}: cannot be opened: {reason}") from None
    except ImportError:
        pass  # pyarrow was built without this kind
    return _by_fsspec(scheme, root)


def _s3(bucket: str) -> fs.FileSystem:
    endpoint, region = _endpoint(), os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if endpoint is None:
        try:
            region = fs.resolve_s3_region(bucket)
        except OSError:
            if region is None:
                raise
    return fs.S3FileSystem(
        region=region,
        endpoint_override=endpoint,
        background_writes=False,  # they would hold a whole output in memory
        connect_timeout=_CONNECT_SECONDS,
        request_timeout=_SILENT_SECONDS,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=max_attempts()),
    )


def is_known_to_fsspec(scheme: str) -> bool:
    """Return whether fsspec is installed and has a file system for a scheme."""
    try:
        import fsspec
    except ImportError:
        return False
    return scheme in fsspec.available_protocols()


def _by_fsspec(scheme: str, root: str) -> FileStore:
    if not is_known_to_fsspec(scheme):
        known = ", ".join(f"{name}://" for name in ("s3", "gs", "hdfs", "abfs"))
        near = did_you_mean(scheme, STORE_SCHEMES, noun=None)
        raise DataError(
            f"{root}: {scheme!r} is not a kind of URI that can be read{near}; {known} can, and others "
            f"with fsspec: {how_to_install('fsspec', 's3')}"
        )
    import fsspec
    from fsspec.registry import known_implementations

    try:
        files, base = fsspec.core.url_to_fs(f"{root}/")
    except ImportError as error:
        hint = known_implementations.get(scheme, {}).get("err", "")
        if scheme == "hf":
            hint = "pip install huggingface_hub"
        raise DataError(f"{root}: a package for {scheme} is not installed: {hint or error}") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{root}: cannot be opened: {shorten(str(error), 200)}") from None
    return FileStore(fs.PyFileSystem(fs.FSSpecHandler(files)), "fsspec", root, base.rstrip("/"))


def delta_options(uri: str) -> dict[str, str]:
    """Return deltalake's options for a store, without credentials, which it finds as pyarrow does."""
    store, endpoint = store_of(uri), _endpoint()
    if store.kind != "s3":
        return {}
    options = {
        "AWS_REGION": store.files.region,
        "connect_timeout": f"{_CONNECT_SECONDS:g}s",
        "timeout": f"{_SILENT_SECONDS:g}s",
        "max_retries": str(max_attempts() - 1),
    }
    if endpoint is not None:
        options |= {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": str(endpoint.startswith("http:")).lower()}
    return options


def is_store_error(error: Exception, uri: str) -> bool:
    """Return whether the library of a store may raise an error: those of fsspec's file systems share no class."""
    if isinstance(error, pa.ArrowException | OSError | ValueError | NotImplementedError):
        return True
    return store_of(uri).kind == "fsspec" and not isinstance(error, EvalpluginError)


def store_reason(error: Exception, uri: str) -> str | None:
    """Return the reason of a server's refusal and its remedy; None for an error of another kind."""
    match = _AWS_ERROR.search(str(error))
    if match is None:
        if "DefaultAzureCredential" in str(error):
            return (
                "no credentials: set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, run az login, or give "
                "this machine an identity"
            )
        return None
    code, status, operation, detail = match[1], int(match[2] or 0), match[3], " ".join(match[4].split())
    if code == "NO_SUCH_BUCKET":
        return no_bucket(uri_parts(uri)[1])
    if code in _MISSING:
        return "file not found"
    if code in _DENIED or status in (401, 403):
        reason = "" if code == "ACCESS_DENIED" else f", {code}"
        return (
            f"no permission (403, {operation}{reason}){_place()}: give credentials that allow it: AWS_ACCESS_KEY_ID "
            f"and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or a role of this machine"
        )
    reason = f"status {status}" if status > 0 else code
    times = f"up to {max_attempts()} attempts" if max_attempts() > 1 else "1 attempt"
    return (
        f"the server{_place()} failed in {times}: {reason}, {operation}: {shorten(detail, 200)}; see AWS_ENDPOINT_URL, "
        f"AWS_REGION"
    )


def _endpoint() -> str | None:
    """Return the address of another S3 server than AWS's, as the tools of AWS read it."""
    if os.environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true":
        return None
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None


def no_bucket(bucket: str) -> str:
    """Return the message that a store has no such bucket."""
    return f"there is no bucket {bucket!r}{_place()}"


def _place() -> str:
    """Return the address of the S3 server for messages; nothing for AWS itself."""
    endpoint = _endpoint()
    return f" at {endpoint}" if endpoint else ""


def max_attempts() -> int:
    """Return how often a request to S3 is sent where it fails in a way that may pass."""
    text = os.environ.get("AWS_MAX_ATTEMPTS", "")
    return max(1, int(text)) if text.isdecimal() else _ATTEMPTS
