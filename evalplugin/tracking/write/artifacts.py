"""The files of a run: which there are, and how each is written."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evalplugin.base.secrets import redact, redact_yaml
from evalplugin.comparison.compared import Cell
from evalplugin.data.background import Background
from evalplugin.execution.results import Bakeoff, ModelResult
from evalplugin.metrics.scoring import PerUserScores
from evalplugin.report.text import summary_markdown
from evalplugin.segments import Segmentation
from evalplugin.tracking.write.provenance import environment_text

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "SAMPLE",
    "TABLE",
    "Artifacts",
    "config_artifacts",
    "model_artifacts",
    "per_user_table",
    "sampled_users",
    "text_file",
    "write",
]

Artifacts = Mapping[str, Callable[[Path], None]]  # path in the run -> what writes the file

SAMPLE = 1000  # users in the table that MLflow's page shows; the page holds no more at a usable speed
TABLE = "per_user.json"


def model_artifacts(
    bakeoff: Bakeoff,
    result: ModelResult,
    cells: Mapping[str, Cell],
    *,
    left_out_params: tuple[str, ...] = (),
) -> dict[str, Callable[[Path], None]]:
    """Return the files of a model's run by path, pictures excepted.

    The files for people and for MLflow's compare page stand at the root, under the same names in every run; those
    for programs stand in ``data/``.
    """
    notes = [f"parameter {key} is too long for MLflow: it stands in config.yaml" for key in left_out_params]
    files: dict[str, Callable[[Path], None]] = dict(config_artifacts(bakeoff))
    if (scores := result.per_user) is not None:
        rows = sampled_users(scores.users)
        if len(rows) < len(scores.users):
            notes.append(
                f"{TABLE} holds {len(rows):,} of {len(scores.users):,} users: those with the smallest hash of their "
                f"id, the same in every run; data/per_user.parquet holds all"
            )
        files[TABLE] = text_file(json.dumps(per_user_table(scores, rows), ensure_ascii=False))
        files["data/per_user.parquet"] = _parquet(lambda: _per_user_arrow(scores))
        files |= _data_artifacts(result.data.segments, result.data.background)
    if (top_n := result.top_n) is not None:
        files["data/top_n.parquet"] = _parquet(lambda: top_n)
    if result.error is not None:
        files["traceback.txt"] = text_file(redact(result.error))
    files["summary.md"] = text_file(redact(summary_markdown(bakeoff, result, cells, notes=notes)))
    return files


def config_artifacts(bakeoff: Bakeoff) -> dict[str, Callable[[Path], None]]:
    """Return the files that every run of a bake-off has: the config, as written and resolved, and the packages."""
    return {
        "config.yaml": text_file(redact_yaml(bakeoff.config_text)),
        "data/config_resolved.yaml": text_file(redact_yaml(bakeoff.config_resolved)),
        "data/environment.txt": text_file(environment_text()),
    }


def write(files: Artifacts, folder: Path) -> None:
    """Write every file below a folder."""
    for path, write_to in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        write_to(target)


def sampled_users(users: npt.NDArray[np.generic], size: int = SAMPLE) -> npt.NDArray[np.intp]:
    """Return the positions of at most ``size`` users, ascending.

    Chosen by a hash of the id, so that every run picks the same users and tables can be joined.
    """
    if len(users) <= size:
        return np.arange(len(users))
    from pandas.util import hash_array

    hashes = hash_array(np.asarray(users), categorize=False)
    return np.sort(np.argsort(hashes, kind="stable")[:size])


def per_user_table(scores: PerUserScores, rows: npt.NDArray[np.intp]) -> dict[str, list[Any]]:
    """Return the scores of some users as MLflow's table: ``columns`` and ``data``; undefined is null."""
    users = scores.users[rows].tolist()
    values = scores.values[rows].tolist()
    data = [
        [user, *(None if math.isnan(v) else v for v in row)] for user, row in zip(users, values, strict=True)
    ]
    return {"columns": ["user", *scores.metrics], "data": data}


def _per_user_arrow(scores: PerUserScores) -> pa.Table:
    import pyarrow as pa

    users = scores.users
    columns = {"user": pa.array(users.tolist() if users.dtype == object else users)}
    # NaN stays NaN and does not become null: it is the value that the scores hold.
    return pa.table(columns | {name: pa.array(scores.column(name)) for name in scores.metrics})


def _data_artifacts(
    segments: Sequence[Segmentation], background: Background
) -> dict[str, Callable[[Path], None]]:
    """Return the files on the data that a page on the scores needs; without titles or segments none of these."""
    files = {
        "data/truth.parquet": _parquet(lambda: background.truth),
        "data/history.parquet": _parquet(lambda: background.history),
    }
    if background.titles:
        files["data/titles.parquet"] = _parquet(lambda: _titles_arrow(background.titles))
    if segments:
        files["data/segments.parquet"] = _parquet(lambda: _segments_arrow(segments))
    return files


def _titles_arrow(titles: Mapping[Any, str]) -> pa.Table:
    import pyarrow as pa

    return pa.table({"item": list(titles), "title": list(titles.values())})


def _segments_arrow(segments: Sequence[Segmentation]) -> pa.Table:
    """Return one row a test user and one column of labels a segment; what there is in which order is metadata."""
    import pyarrow as pa

    users = segments[0].users
    columns = {"user": pa.array(users.tolist() if users.dtype == object else users)}
    for one in segments:
        assert np.array_equal(one.users, users)
        labels = pa.array(one.labels, pa.string())
        columns[one.name] = labels.take(pa.array(one.group, mask=one.group < 0))
    described = json.dumps({"segments": {one.name: list(one.labels) for one in segments}})
    return pa.table(columns).replace_schema_metadata({"evalplugin": described})


def text_file(content: str) -> Callable[[Path], None]:
    """Return what writes a text."""

    def write_to(path: Path) -> None:
        # Surrogates stand for bytes that were no text; they must not keep a traceback from being logged.
        path.write_text(content, encoding="utf-8", errors="backslashreplace", newline="\n")

    return write_to


def _parquet(table: Callable[[], pa.Table]) -> Callable[[Path], None]:
    def write_to(path: Path) -> None:
        import pyarrow.parquet as pq

        pq.write_table(table(), path, compression="zstd")

    return write_to
