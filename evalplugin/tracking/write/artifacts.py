"""The files of a run: tables of scores and data, texts, the config, pictures."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from evalplugin.base.libraries import pa, pd, pq
from evalplugin.base.places import DataSplit
from evalplugin.base.remembering import remembered
from evalplugin.comparison.compared import Cell
from evalplugin.comparison.comparison import Comparison
from evalplugin.execution.results import DataInfo, ModelResult, Plan, Scored
from evalplugin.metrics.scores import PerUserScores
from evalplugin.report.charts.distribution import Curve, axis_limits, user_pictures
from evalplugin.report.charts.palette import model_styles
from evalplugin.report.charts.pictures import NO_PICTURES, ModelPicture, can_draw
from evalplugin.report.run_summary import summary_markdown
from evalplugin.segments import HistoryLengths, Segmentation
from evalplugin.tracking.names import metric_name
from evalplugin.tracking.write.items import Artifact
from evalplugin.tracking.write.labels import model_params
from evalplugin.tracking.write.provenance import environment_text
from evalplugin.tracking.write.writer import write_artifact

TABLE_USERS = 1000  # users in the table that MLflow's page shows; the page holds no more at a usable speed
TABLE = "per_user.json"
PARAMS = "data/params.json"  # of a tuned model
# Of columns that a dictionary makes no smaller: rows of a user follow each other, and hardly two scores are equal.
_ENCODINGS = {"user": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED", "score": "BYTE_STREAM_SPLIT"}
_PART_BYTES = (
    100_000_000  # of a table in memory: larger files fail where a server or a proxy has a time limit
)


def model_artifacts(plan: Plan, result: ModelResult, cells: Mapping[str, Cell]) -> Iterator[Artifact]:
    """Yield the files of a model's run, pictures excepted.

    The files for people and for MLflow's compare page are at the root, under the same names in every run; those for
    programs are in ``data/``.
    """
    yield from config_artifacts(plan)
    if (scores := result.per_user) is not None:
        table = json.dumps(per_user_table(scores), ensure_ascii=False)
        yield Artifact(TABLE, table.encode("utf-8", "backslashreplace"))
        # NaN must not become null, as it is a value of the scores.
        columns = {name: pa.array(scores.column(name)) for name in scores.metrics}
        yield _parquet("data/per_user.parquet", pa.table({"user": pa.array(scores.users), **columns}))
        yield from _data_tables(result.data)
    if (lists := result.lists) is not None:
        yield Artifact("data/top_n.parquet", lambda path: _write_table(lists.table(), path))
    if result.items is not None:
        yield _parquet("data/per_item.parquet", result.items)
    if result.tuning is not None:
        yield _parquet("tune/trials.parquet", result.tuning.trials)
        # What was tuned is not in the resolved config, which is the same in all runs.
        yield Artifact(PARAMS, json.dumps(dict(result.params)))
    if result.error is not None:
        yield Artifact("traceback.txt", result.error)
    yield summary_artifact(plan, result, cells)


def summary_artifact(
    plan: Plan, result: ModelResult, cells: Mapping[str, Cell], verdict: str = ""
) -> Artifact:
    """Return the summary of a model's run for people.

    Args:
        plan: Of the bake-off.
        result: The model's result.
        cells: The model's values by metric.
        verdict: A sentence on all models, once they are compared.
    """
    _, too_long = model_params(plan, result)
    notes = [f"parameter {key} is too long for MLflow: it stands in config.yaml" for key in too_long]
    if not can_draw():
        notes.append(NO_PICTURES)
    if (scores := result.per_user) is not None and len(scores.users) > TABLE_USERS:
        notes.append(
            f"{TABLE} holds {TABLE_USERS:,} of {len(scores.users):,} {scores.units.nouns}: those with the "
            f"smallest hash of their id, the same in every run; the table per_user in data/ holds all"
        )
    return Artifact("summary.md", summary_markdown(plan, result, cells, notes=notes, verdict=verdict))


def config_artifacts(plan: Plan) -> Iterator[Artifact]:
    """Yield the files that every run of a bake-off has: the config, as written and resolved, and the packages."""
    yield Artifact("config.yaml", plan.config_text)
    yield Artifact("data/config_resolved.yaml", plan.config_resolved)
    # As bytes, which are not redacted: the line "google-auth==2.0" looks like a credential.
    yield Artifact("data/environment.txt", environment_text().encode())


def differences_artifacts(comparisons: Iterable[Comparison]) -> Iterator[Artifact]:
    """Yield the table of all pairs of models that were compared, if there are any."""
    rows = [
        {
            **c.contest.place._asdict(), "metric": pair.metric, "model": pair.model, "against": pair.against,
            "difference": of.mean, "low": of.low, "high": of.high, "p": pair.p, "p_holm": pair.p_holm, "users": of.n,
        }
        for c in comparisons for pair in c.every_pair for of in (pair.paired.interval,)
    ]  # fmt: skip
    if rows:
        yield _parquet("data/differences.parquet", pa.Table.from_pylist(rows))


def picture_artifacts(
    plan: Plan, results: Sequence[ModelResult], further: Iterable[ModelPicture] = ()
) -> dict[tuple[str, str, str], list[Artifact]]:
    """Return the pictures of each model's run, by dataset, split and model: its users' scores, and ``further`` ones.

    They show the primary metric. A model without a score of a user by it has no entry. The lists are empty where the
    package that draws is not installed.
    """
    artifacts: dict[tuple[str, str, str], list[Artifact]] = {}
    for place, model, path, draw in (*_score_pictures(plan, results), *further):
        drawn = [Artifact(path, partial(_write_picture, draw))] if can_draw() else []
        artifacts.setdefault((*place, model), []).extend(drawn)
    return artifacts


def _score_pictures(plan: Plan, results: Sequence[ModelResult]) -> Iterator[ModelPicture]:
    primary = plan.spec(plan.primary)
    styles = model_styles(plan.models, plan.baseline)
    columns = [
        (m, m.per_user.column(primary.name))
        for m in results
        if m.per_user is not None and primary.name in m.per_user.metrics
    ]
    scored = [(m, column[np.isfinite(column)]) for m, column in columns]
    scored = [(m, values) for m, values in scored if len(values)]
    limits = axis_limits(primary, [values for _, values in scored])
    path = f"per_user_{metric_name(primary.name)}.png"
    for place, grouped in groupby(scored, key=lambda pair: DataSplit.of(pair[0].data)):
        group = list(grouped)
        curves = [Curve(m.model, values, styles[m.model], m.model == plan.baseline) for m, values in group]
        where = " · ".join(filter(None, place))
        for model, draw in user_pictures(primary, curves, limits, where, group[0][0].data.units.noun):
            yield ModelPicture(place, model, path, draw)


def _write_picture(draw: Callable[[], bytes], path: Path) -> None:
    path.write_bytes(draw())


def sampled_users(users: npt.NDArray[np.generic], size: int) -> npt.NDArray[np.intp]:
    """Return the positions of at most ``size`` users, ascending, those with the smallest hash of their id.

    So every run samples the same users, and tables can be joined.
    """
    if len(users) <= size:
        return np.arange(len(users))
    hashes = pd.util.hash_array(np.asarray(users), categorize=False)
    return np.sort(np.argsort(hashes, kind="stable")[:size])


def per_user_table(scores: PerUserScores) -> dict[str, list[Any]]:
    """Return the scores of ``TABLE_USERS`` users as MLflow's table: ``columns`` and ``data``; undefined is null."""
    rows = sampled_users(scores.users, TABLE_USERS)
    pairs = zip(scores.users[rows].tolist(), scores.values[rows].tolist(), strict=True)
    data = [[user, *(None if math.isnan(v) else v for v in row)] for user, row in pairs]
    return {"columns": ["user", *scores.metrics], "data": data}


@remembered  # all models of a dataset and split have the same data
def _data_tables(data: Scored) -> list[Artifact]:
    """Return the files with what the comparison page reads about the data, as bytes."""
    histories, tables = None, {}
    if isinstance(data, DataInfo):
        background, histories = data.background, data.histories
        tables = {"truth": background.truth, "history": background.history}
        if titles := background.titles:
            tables["titles"] = pa.table({"item": list(titles), "title": list(titles.values())})
    if (groups := _groups_arrow(data.segments, histories, data.units.column)) is not None:
        tables["segments"] = groups
    with TemporaryDirectory(prefix="evalplugin-") as folder:
        artifacts = [_parquet(f"data/{name}.parquet", table) for name, table in tables.items()]
        files = [file for artifact in artifacts for file in write_artifact(artifact, Path(folder))]
        return [Artifact(file.relative_to(folder).as_posix(), file.read_bytes()) for file in files]


def _groups_arrow(
    segments: Sequence[Segmentation], histories: HistoryLengths | None, clustering: Segmentation | None
) -> pa.Table | None:
    """Return one row a test user, one column of labels a segment, and those of lengths of histories and of clusters.

    The metadata has the labels in order. None without any of these columns.
    """
    users = next((own.users for own in (*segments, histories, clustering) if own is not None), None)
    if users is None:
        return None
    columns = {"user": pa.array(users)}
    for segment in segments:
        assert np.array_equal(segment.users, users)
        labels = pa.array(segment.labels, pa.string())
        columns[segment.name] = labels.take(pa.array(segment.group, mask=segment.group < 0))
    described = {
        "segments": {segment.name: list(segment.labels) for segment in segments},
        "from_truth": [segment.name for segment in segments if segment.from_truth],
    }
    if histories is not None:
        described["history"] = name = _unused("train_interactions", columns)
        columns[name] = pa.array(histories.length)
    if clustering is not None:
        described["clusters"] = {"name": clustering.name, "column": (name := _unused("cluster", columns))}
        columns[name] = pa.array(clustering.labels, pa.string()).take(pa.array(clustering.group))
    return pa.table(columns).replace_schema_metadata({"evalplugin": json.dumps(described)})


def _unused(name: str, columns: Mapping[str, Any]) -> str:
    while name in columns:
        name += "_"
    return name


def _parquet(path: str, table: pa.Table) -> Artifact:
    return Artifact(path, partial(_write_table, table))


def _write_table(table: pa.Table, path: Path) -> None:
    """Write a Parquet file, or a folder of files that together are the table, if one would be too large to upload."""
    encodings = {
        field.name: _ENCODINGS[field.name]
        for field in table.schema
        if field.name in _ENCODINGS and not pa.types.is_string(field.type)
    }
    dictionary = [name for name in table.column_names if name not in encodings]
    write = partial(pq.write_table, compression="zstd", column_encoding=encodings, use_dictionary=dictionary)
    if table.nbytes <= _PART_BYTES:
        write(table, path)
        return
    path.mkdir()
    rows = max(1, len(table) * _PART_BYTES // table.nbytes)
    for part, start in enumerate(range(0, len(table), rows)):
        write(table.slice(start, rows), path / f"part-{part:05}.parquet")
