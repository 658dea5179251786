"""Pictures of a bake-off whose results are all cached."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from mlflow import MlflowClient
from samples import small_config, write_config

from evalplugin.bakeoff import flow
from evalplugin.cli import main
from evalplugin.report.figures import FigureRequest


def pictures(experiment: str = "shop") -> list[dict[str, bytes]]:
    """Return the PNGs of each bake-off's runs of the model popularity, the latest first."""
    client = MlflowClient(f"sqlite:///{Path.cwd()}/mlflow.db")
    home = client.get_experiment_by_name(experiment)
    assert home is not None
    runs = client.search_runs([home.experiment_id], "tags.`evalplugin.model` = 'popularity'")
    files = [[file.path for file in client.list_artifacts(run.info.run_id)] for run in runs]
    return [
        {
            path: Path(client.download_artifacts(run.info.run_id, path)).read_bytes()
            for path in paths
            if path.endswith(".png")
        }
        for run, paths in zip(runs, files, strict=True)
    ]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The metrics whose pictures are drawn."""
    metrics: list[str] = []
    draw = FigureRequest.draw

    def recorded(request: FigureRequest) -> dict[str, bytes]:
        metrics.append(request.metric)
        return draw(request)

    monkeypatch.setattr(FigureRequest, "draw", recorded)
    return metrics


@pytest.mark.usefixtures("store")
def test_a_cached_bakeoff_logs_its_pictures_without_drawing_them(
    drawn: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []

    @contextmanager
    def processes(n_figures: int) -> Iterator[tuple[()]]:
        started.append(n_figures)
        yield ()

    monkeypatch.setattr(flow, "drawing_processes", processes)
    config = write_config(small_config())
    assert main(["run", config]) == 0
    assert drawn == ["ndcg@10", "recall@10"]
    assert started == [6]
    assert main(["run", config]) == 0
    assert drawn == ["ndcg@10", "recall@10"]
    assert started == [6]  # Matplotlib is not even imported
    latest, first = pictures()
    assert latest == first
    assert set(latest) == {"per_user_ndcg_at_10.png", "per_user_recall_at_10.png"}
    assert all(png.startswith(b"\x89PNG") for png in latest.values())


@pytest.mark.usefixtures("store")
def test_pictures_are_drawn_again_if_they_show_something_else(drawn: list[str]) -> None:
    assert main(["run", write_config(small_config())]) == 0
    drawn.clear()
    assert main(["run", write_config(small_config(compare={"baseline": "popularity"}))]) == 0
    assert drawn == ["ndcg@10", "recall@10"]
    latest, first = pictures()
    assert all(latest[name] != first[name] for name in first)


@pytest.mark.usefixtures("store")
def test_fresh_pictures_are_drawn(drawn: list[str]) -> None:
    config = write_config(small_config())
    for _ in range(2):
        assert main(["run", config, "--fresh"]) == 0
    assert drawn == ["ndcg@10", "recall@10"] * 2


@pytest.mark.usefixtures("store")
def test_damaged_pictures_are_drawn_again(drawn: list[str]) -> None:
    config = write_config(small_config())
    assert main(["run", config]) == 0
    (kept,) = Path(".evalplugin/entries").glob("*/*/pictures.npy")
    content = bytearray(kept.read_bytes())
    content[-100] ^= 1
    kept.write_bytes(content)
    assert main(["run", config]) == 0
    assert len(drawn) == 4
    latest, first = pictures()
    assert latest == first
