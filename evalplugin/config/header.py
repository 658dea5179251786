"""The name and the notifier of a config, readable even where the rest of it is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from evalplugin.base.errors import ConfigError
from evalplugin.config.checked import CheckedConfig
from evalplugin.config.document import Document, read_document
from evalplugin.config.sections import Notify

__all__ = ["ConfigHeader"]


@dataclass(frozen=True)
class ConfigHeader:
    """A config's name, experiment and notifier; known even where the rest of the config is wrong."""

    name: str
    folder: Path
    experiment: str | None = None
    notify: Notify | None = None

    @classmethod
    def of(cls, config: CheckedConfig, experiment: str | None = None) -> ConfigHeader:
        """Return the header of a checked config; an experiment that is given wins over its own."""
        return cls(config.name, config.folder, experiment or config.spec.experiment, config.spec.notify)

    @classmethod
    def read(cls, source: Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> ConfigHeader:
        """Return the parts that can be read, whatever is wrong with the config and the assignments."""
        if isinstance(source, Mapping):
            document, folder = Document("python", "", dict(source), {}, {}), Path.cwd()
        else:
            try:
                document, folder = read_document(source), source.resolve().parent
            except Exception:  # noqa: BLE001 - `load` reports it
                return cls(str(source), source.parent)
        for assignment in overrides:
            with suppress(ConfigError):
                document = document.override([assignment])
        experiment, notify = document.data.get("experiment"), None
        with suppress(ValidationError):
            notify = Notify.model_validate(document.data.get("notify"))
        return cls(document.name, folder, experiment if isinstance(experiment, str) else None, notify)
