"""Where the tracking store is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mlflow.utils.file_utils import local_file_uri_to_path
from sqlalchemy.engine import make_url

from evalplugin.base.errors import TrackingError
from evalplugin.files.uris import local_path
from evalplugin.tracking.location import artifact_location, resolve_uri, sqlite_path, ui_base_url, ui_command


def test_without_a_name_the_store_is_a_database_in_the_working_directory() -> None:
    assert resolve_uri(None) == f"sqlite:///{Path.cwd()}/mlflow.db"


def test_the_environment_names_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000/")
    assert resolve_uri(None) == "http://127.0.0.1:5000"
    assert resolve_uri("sqlite:////x/y.db") == "sqlite:////x/y.db"


def test_a_relative_path_becomes_absolute() -> None:
    uri = resolve_uri("sqlite:///a/../b c/m.db?timeout=9")
    assert uri == f"sqlite:///{Path.cwd()}/b c/m.db?timeout=9"


@pytest.mark.parametrize("path", ["m.db", "a b/ü.db", "a#b.db", "file:x.db"])
@pytest.mark.parametrize("is_absolute", [False, True])
def test_a_sqlite_uri_names_the_file_that_sqlalchemy_opens(path: str, is_absolute: bool) -> None:
    given = f"sqlite:///{Path.cwd()}/{path}" if is_absolute else f"sqlite:///{path}"
    uri = resolve_uri(given)
    assert sqlite_path(uri) == Path.cwd() / path
    assert make_url(uri).database == f"{Path.cwd()}/{path}"
    assert resolve_uri(uri) == uri
    location = artifact_location(uri, "x")
    assert local_path(location).parents[1] == (Path.cwd() / path).parent
    assert local_file_uri_to_path(location) == str(local_path(location))


def test_a_uri_of_sqlite_and_control_characters_are_refused() -> None:
    with pytest.raises(TrackingError, match="has a URI of SQLite's own in it: name the file itself"):
        resolve_uri("sqlite:///file:x.db?mode=ro&uri=true")
    with pytest.raises(TrackingError, match="has white space around it, or a control character"):
        resolve_uri("sqlite:///a\x00b.db")


@pytest.mark.parametrize("uri", ["./mlruns", "mlruns", "file:///tmp/x", "/tmp/x", "file:x"])
def test_plain_folder_is_refused_with_the_migration_command(uri: str) -> None:
    with pytest.raises(TrackingError, match=r"plain folder.*mlflow migrate-filestore"):
        resolve_uri(uri)


def test_old_mlruns_folder_is_an_error_without_a_tracking_uri() -> None:
    old = Path("mlruns", "0")
    old.mkdir(parents=True)
    assert resolve_uri(None).startswith("sqlite:///")
    (old / "meta.yaml").touch()
    with pytest.raises(TrackingError, match=r"mlruns holds runs of an older MLflow.*migrate-filestore"):
        resolve_uri(None)
    assert resolve_uri("sqlite:///mlflow.db").endswith("mlflow.db")


def test_a_folder_in_place_of_a_file_is_refused() -> None:
    with pytest.raises(TrackingError, match="is a folder; name a file in it"):
        resolve_uri(f"sqlite:///{Path.cwd()}")


def test_remote_and_databricks_uris_are_unchanged() -> None:
    for uri in ("postgresql+psycopg2://u:p@h/db", "databricks", "databricks://profile"):
        assert resolve_uri(uri) == uri


def test_artifact_location_of_sqlite_is_next_to_the_database() -> None:
    place = artifact_location("sqlite:////some where/mlflow.db", "my exp/1")
    assert re.fullmatch(r"file:///some%20where/mlartifacts/my-exp-1-[0-9a-f]{8}", place)
    assert artifact_location("http://host", "x") is None


def test_experiments_whose_names_look_alike_as_files_have_different_folders() -> None:
    assert artifact_location("sqlite:////m.db", "a/b") != artifact_location("sqlite:////m.db", "a:b")


def test_ui_command_is_quoted_for_the_shell() -> None:
    assert ui_command("sqlite:////a b/m.db") == "mlflow ui --backend-store-uri 'sqlite:////a b/m.db'"
    assert ui_command("postgresql://u:p@h/db") == "mlflow ui --backend-store-uri 'postgresql://***@h/db'"
    assert ui_command("https://host") is None


def test_links_hold_no_credentials() -> None:
    assert ui_base_url("https://ann:pw@host:8443/mlflow") == "https://host:8443/mlflow"
    assert ui_base_url("sqlite:////m.db") == "http://127.0.0.1:5000"
