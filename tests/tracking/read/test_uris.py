"""Fingerprints of MLflow's URIs."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow import MlflowClient

from evalplugin.base.errors import DataError
from evalplugin.tracking.read.uris import uri_version


def version(client: MlflowClient, run_id: str) -> str:
    return str(client.create_model_version("shop", f"runs:/{run_id}/model", run_id=run_id).version)


def test_uris_of_the_registry_lead_to_versions(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = MlflowClient(uri, registry_uri=uri)
    experiment = client.create_experiment("shop", Path("artifacts").absolute().as_uri())
    run_id = client.create_run(experiment).info.run_id
    client.create_registered_model("shop")
    first = version(client, run_id)
    client.set_registered_model_alias("shop", "champion", first)

    def of(text: str) -> str:
        return uri_version(text, tracking_uri=uri)

    assert of("models:/shop@champion") == of("models:/shop/1") == of("models:/shop/latest")
    assert of("models:/shop@champion").startswith("version 1 of ")
    second = version(client, run_id)
    assert of("models:/shop@champion") == of("models:/shop/1")
    assert of("models:/shop/latest") == of(f"models:/shop/{second}") != of("models:/shop/1")
    client.set_registered_model_alias("shop", "champion", second)
    assert of("models:/shop@champion") == of("models:/shop/2")
    assert of("models:/m-0123abc") == "m-0123abc"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert uri_version("models:/shop@champion", tracking_uri="sqlite:////elsewhere.db").startswith(
        "version 2"
    )


def test_uris_of_runs_and_artifacts_are_names_and_sizes(uri: str) -> None:
    client = MlflowClient(uri)
    experiment = client.create_experiment("shop", Path("artifacts").absolute().as_uri())
    run_id = client.create_run(experiment).info.run_id
    Path("w").mkdir()
    Path("w/a.bin").write_bytes(b"one")
    client.log_artifacts(run_id, "w", "model/weights")

    def of() -> str:
        return uri_version(f"runs:/{run_id}/model", tracking_uri=uri)

    first = of()
    assert of() == first
    Path("w/b.bin").write_bytes(b"two")
    client.log_artifacts(run_id, "w", "model/weights")
    assert of() != first


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("models:/shop@champion", "not found"),
        ("models:/shop/1", "not found"),
        ("models:/shop/latest", "the registered model 'shop' has no version 'latest'"),
        ("models:/shop/Production", "the registered model 'shop' has no version 'Production'"),
        ("runs:/0123abc/model", "not found"),
    ],
)
def test_uris_that_lead_nowhere_are_refused(uri: str, name: str, reason: str) -> None:
    with pytest.raises(
        DataError, match=f"{name}: it cannot be known whether its content has changed: .*{reason}"
    ):
        uri_version(name, tracking_uri=uri)


def test_looking_up_a_uri_makes_no_store() -> None:
    store = Path("absent.db").absolute()
    with pytest.raises(DataError, match="there is no tracking store"):
        uri_version("models:/shop@champion", tracking_uri=f"sqlite:///{store}")
    assert not store.exists()
