"""Loading of configs: a file or a mapping is validated and resolved, or refused with all its mistakes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from evalplugin.base.secrets import register_secrets, register_webhook
from evalplugin.base.tracking_uri import check_driver
from evalplugin.components.registry import load_plugin_file
from evalplugin.config.checked import CheckedConfig
from evalplugin.config.checks import Checks
from evalplugin.config.components import InlineSpec
from evalplugin.config.document import Document, read_document
from evalplugin.config.schema import ModelSpec
from evalplugin.config.sections import Compare, Recommend, Tracking
from evalplugin.data import SPLITS, LoadContext

__all__ = ["load"]


def load(
    source: Path | Mapping[str, Any],
    *,
    overrides: Sequence[str] = (),
    data_home: Path | None = None,
    runs_here: bool = True,
    engine: str | None = None,
) -> CheckedConfig:
    """Return the checked config of a YAML file, or of a mapping given from Python; no data is read.

    ``overrides`` are assignments such as ``models.0.params.k=20``; ``data_home`` is the folder of downloaded datasets;
    ``runs_here``: whether the driver of the tracking store must be installed; ``engine`` is the type of the engine and
    wins over the config's, whose parameters stay where it is the same.

    Raises:
        ConfigError: Everything that is wrong, one line a problem, in the order of the file.
    """
    if isinstance(source, Mapping):
        document, folder = Document("python", _as_text(source), dict(source), {}, {}), Path.cwd()
    else:
        document, folder = read_document(source), source.resolve().parent
    if overrides:
        document = document.override(overrides)
    if engine is not None:
        document = document.with_engine(engine)
    return _check(document, folder, data_home, runs_here)


def _check(document: Document, folder: Path, data_home: Path | None, runs_here: bool) -> CheckedConfig:
    register_secrets(document.data)
    notify = document.data.get("notify")
    if isinstance(notify, Mapping) and isinstance(notify.get("url"), str):
        register_webhook(notify["url"])
    checks = Checks(document, folder)
    tracking = checks.section("tracking", Tracking)
    if runs_here and tracking is not None and tracking.uri is not None:
        checks.attempt(("tracking", "uri"), check_driver, tracking.uri)

    before = len(checks.problems)
    for path, file in checks.parts("plugins", str):
        checks.attempt(path, load_plugin_file, folder / file)
    if len(checks.problems) > before:
        # An unknown name may be one of a plugin that is broken: report the cause alone.
        checks.stop_if_any()

    # Well-formed parts are checked further even where others are malformed, to report all mistakes together.
    context = LoadContext(data_home=data_home, base=folder)
    datasets = checks.datasets(context)
    splits = checks.components("split", InlineSpec, SPLITS, context)
    models = [
        model
        for path, one in checks.parts("models", ModelSpec)
        for model in checks.expand(one, path, context)
    ]
    segments = checks.segments(context)
    recommend = checks.section("recommend", Recommend) or Recommend()
    metrics = checks.metrics(recommend.n)

    compare = checks.section("compare", Compare) or Compare()
    names = checks.names(metrics, segments, compare)
    primary = checks.primary(compare, names.metrics)
    checks.baseline(compare, names.models)
    checks.gate(names)
    checks.registrable(models)
    tune = checks.tuning(names.metrics, primary, context)
    engine = checks.engine(context)
    checks.stop_if_any()
    assert checks.spec is not None
    assert primary is not None
    return CheckedConfig(
        spec=checks.spec,
        document=document,
        folder=folder,
        datasets=tuple(datasets),
        splits=tuple(splits),
        models=tuple(models),
        metrics=tuple(metrics),
        primary=primary,
        segments=tuple(segments),
        tune=tune,
        engine=engine,
    )


def _as_text(data: Mapping[str, Any]) -> str:
    return yaml.safe_dump(
        json.loads(json.dumps(data, default=lambda value: f"<{type(value).__name__}>")),
        sort_keys=False,
        allow_unicode=True,
    )
