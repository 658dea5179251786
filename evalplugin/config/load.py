"""Loading of configs: a file or a mapping is validated and resolved, or refused with all its mistakes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from evalplugin.base.secrets import register_secrets
from evalplugin.base.tracking_uri import check_driver
from evalplugin.components.registry import load_plugin_file
from evalplugin.config.checked import CheckedConfig
from evalplugin.config.checks import Checks, SectionCheck
from evalplugin.config.components import EngineSpec, InlineSpec
from evalplugin.config.document import Document, read_document
from evalplugin.config.engines import ENGINES
from evalplugin.config.new_checks import check_logs, check_new, check_units
from evalplugin.config.schema import Config, ModelSpec, SegmentSpec
from evalplugin.config.sections import Compare, Recommend, Tracking
from evalplugin.data import SPLITS, LoadContext
from evalplugin.segments import SEGMENTS


def load(
    source: Path | Mapping[str, Any],
    *,
    schema: type[Config],
    section_checks: Mapping[str, SectionCheck],
    overrides: Sequence[str] = (),
    data_home: Path | None = None,
    engine: str | None = None,
) -> CheckedConfig:
    """Return the checked config of a YAML file, or of a mapping given from Python; no data is read.

    Args:
        source: The file or the mapping.
        schema: From ``root_schema``.
        section_checks: The checks of features' sections, by key.
        overrides: Assignments such as ``models.0.params.k=20``.
        data_home: The folder of downloaded datasets.
        engine: The type of the engine, which wins over the config's; one of the same type keeps its parameters.

    Raises:
        ConfigError: Everything that is wrong, one line a problem, in the order of the file.
    """
    document, folder = read_source(source)
    if overrides:
        document = document.override(overrides)
    if engine is not None:
        document = document.with_engine(engine)
    register_secrets(document.data)
    checks = Checks(document, LoadContext(data_home=data_home, base=folder), schema)
    return _checked(checks, section_checks)


def _checked(checks: Checks, section_checks: Mapping[str, SectionCheck]) -> CheckedConfig:
    folder = checks.context.base
    tracking = checks.section("tracking", Tracking)
    if tracking is not None and tracking.uri is not None:
        checks.attempt(("tracking", "uri"), check_driver, tracking.uri)

    before = len(checks.problems)
    for path, file in checks.parts("plugins", str):
        checks.attempt(path, load_plugin_file, folder / file)
    checks.lacks_plugins = len(checks.problems) > before

    # Well-formed parts are checked further even where others are malformed, to report all mistakes together.
    datasets = checks.datasets()
    splits = checks.components("split", InlineSpec, SPLITS)
    models = [
        model for path, spec in checks.parts("models", ModelSpec) for model in checks.expand(spec, path)
    ]
    segments = checks.components("segments", SegmentSpec, SEGMENTS)
    recommend = checks.section("recommend", Recommend) or Recommend()
    metrics = checks.metrics(recommend, datasets)
    recommend = checks.candidates(recommend, datasets)

    compare = checks.section("compare", Compare) or Compare()
    checks.collect_names(metrics)
    primary = checks.primary(compare, metrics)
    checked = {key: check(checks, models, primary) for key, check in section_checks.items()}
    check_new(checks, splits, models, datasets)
    check_logs(checks, datasets, models)
    check_units(checks, splits, segments)
    engines = checks.components("engine", EngineSpec, ENGINES)
    checks.stop_if_any()
    assert checks.spec is not None
    assert primary is not None
    return CheckedConfig(
        spec=checks.spec.model_copy(update={"recommend": recommend}),
        document=checks.document,
        folder=folder,
        datasets=tuple(datasets),
        splits=tuple(splits),
        models=tuple(models),
        metrics=tuple(metrics),
        primary=primary,
        segments=tuple(segments),
        engine=engines[0] if engines else None,
        checked={key: section for key, section in checked.items() if section is not None},
    )


def read_source(source: Path | Mapping[str, Any]) -> tuple[Document, Path]:
    """Return the document of a file or a mapping, and the folder that its paths are relative to."""
    if not isinstance(source, Mapping):
        return read_document(source), source.resolve().parent
    plain = json.loads(json.dumps(source, default=lambda value: f"<{type(value).__name__}>"))
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    return Document("python", text, dict(source)), Path.cwd()
