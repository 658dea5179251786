"""The pictures of a bake-off as files: one a metric in every run, on the same axes in all of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import groupby
from pathlib import Path

from evalplugin.execution.results import BakeoffResult
from evalplugin.report.figures import Curve, axis_limits, per_user_figures
from evalplugin.report.palette import model_colours
from evalplugin.report.text import share
from evalplugin.tracking.names import metric_names

__all__ = ["picture_artifacts"]

Files = dict[str, Callable[[Path], None]]


def picture_artifacts(result: BakeoffResult) -> dict[tuple[str, str, str], Files]:
    """Return the pictures of each model's run, by dataset, split and model; none for a model that failed.

    They stand at the root under the same names everywhere, where MLflow's compare page puts them side by side.
    """
    bakeoff = result.bakeoff
    colours = model_colours(bakeoff.models, bakeoff.baseline)
    files: dict[tuple[str, str, str], Files] = {}
    for metric, name in metric_names(bakeoff.headline).items():
        scored = [
            (m, m.per_user.column(metric))
            for m in result.models
            if m.per_user is not None and metric in m.per_user.metrics
        ]
        limits = axis_limits(metric, [values for _, values in scored])
        for place, group in groupby(scored, key=lambda pair: (pair[0].data.dataset, pair[0].data.split)):
            curves = [Curve(m.model, v, colours[m.model], m.model == bakeoff.baseline) for m, v in group]
            subtitles = {curve.model: _subtitle(curve, place) for curve in curves}
            for model, png in per_user_figures(metric, curves, limits, subtitles=subtitles).items():
                files.setdefault((*place, model), {})[f"per_user_{name}.png"] = partial(_write, png)
    return files


def _write(content: bytes, path: Path) -> None:
    path.write_bytes(content)


def _subtitle(curve: Curve, place: tuple[str, str]) -> str:
    import numpy as np

    defined = curve.values[np.isfinite(curve.values)]
    users = f"{len(defined):,} users"
    zeros = f", {share(float(np.mean(defined == 0)))} of them at 0" if len(defined) else ""
    return f"{' · '.join(filter(None, place))}: {users}{zeros}"
