"""Units for cron, systemd, Kubernetes, Airflow and others; each runs a bake-off once, if anything changed."""

from __future__ import annotations

import math
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from evalplugin._version import __version__
from evalplugin.base.errors import ConfigError, DataError
from evalplugin.base.libraries import jinja2, yaml
from evalplugin.base.placeholders import variables_in
from evalplugin.config import CheckedConfig
from evalplugin.config.cron import Cron
from evalplugin.config.sections import Schedule
from evalplugin.tracking.location import DEFAULT_URI

# A CronJob's name may have 52 characters, with the prefix.
_LONGEST_NAME = 41
_STORE = "MLFLOW_TRACKING_URI"
_GRACE_SECONDS = 90  # for a bake-off to end its runs after SIGTERM
_FILES = {  # by kind of unit: template -> name of the file
    "cron": {"crontab.j2": "evalplugin.crontab"},
    "systemd": {"systemd.service.j2": "{unit}.service", "systemd.timer.j2": "{unit}.timer"},
    "kubernetes": {"kubernetes.yaml.j2": "{unit}-cronjob.yaml"},
    "github": {"github.yml.j2": "{unit}.yml"},
    "airflow": {"airflow.py.j2": "{dag}.py"},
    "dagster": {"dagster.py.j2": "{dag}_dagster.py"},
    "databricks": {"databricks.yml.j2": "{dag}_databricks.yml", "databricks.py.j2": "{dag}_databricks.py"},
}
KINDS = tuple(_FILES)


@dataclass(frozen=True)
class ScheduledConfig:
    """A config with a schedule."""

    name: str  # of the unit: a few lower-case letters, digits and hyphens; different for every config
    file: Path  # absolute
    schedule: Schedule
    cron: Cron
    variables: tuple[str, ...]  # of the environment that the config reads


def scheduled_configs(
    configs: Sequence[CheckedConfig], files: Sequence[Path], *, tracking_uri: str | None = None
) -> list[ScheduledConfig]:
    """Return the configs with their schedules; ``files`` are their paths, in the same order.

    ``tracking_uri`` wins over the configs'.

    Raises:
        ConfigError: A config without a schedule, or one that is given twice.
    """
    paths = [file.resolve() for file in files]
    twice = dict.fromkeys(str(file) for n, file in enumerate(files) if paths[n] in paths[:n])
    if twice:
        raise ConfigError([f"{file}: is given twice; give each config once" for file in twice])
    without = [config.name for config in configs if config.spec.schedule is None]
    if without:
        add = "schedule: {cron: 0 3 * * *, timezone: Europe/Berlin}"
        raise ConfigError([f"{name}: has no schedule; add one, such as {add}" for name in without])
    jobs: list[ScheduledConfig] = []
    for config, file in zip(configs, files, strict=True):
        schedule, notify = config.spec.schedule, config.spec.notify
        assert schedule is not None
        databases = [dataset.params["url"] for dataset in config.spec.datasets if dataset.type == "sql"]
        variables = variables_in(*databases, *(notify.texts if notify else ()))
        if not (tracking_uri or config.spec.tracking.uri):
            variables.insert(0, _STORE)
        jobs.append(
            ScheduledConfig(
                name=_name(file.stem, [job.name for job in jobs]),
                file=file.absolute(),
                schedule=schedule,
                cron=Cron.of(schedule.cron, schedule.timezone),
                variables=tuple(dict.fromkeys(variables)),
            )
        )
    return jobs


def units(
    kind: str,
    jobs: Sequence[ScheduledConfig],
    *,
    folder: Path,
    options: Sequence[str] = (),
    image: str | None = None,
) -> dict[str, str]:
    """Return the files of a unit by name.

    Args:
        kind: The scheduler, one of ``KINDS``.
        jobs: As ``scheduled_configs`` returns them.
        folder: The working directory, absolute: relative paths of tracking stores are relative to it.
        options: Of the command line, passed to every run.
        image: The container image, for Kubernetes.

    Raises:
        DataError: A path or times that a format cannot hold.
    """
    for text in (str(folder), *options, *(str(job.file) for job in jobs)):
        if not text.isprintable():
            raise DataError(
                f"{text!r}: a unit cannot hold this path or option: it has characters that cannot be printed"
            )
    environment = _environment()
    texts: dict[str, str] = {}
    for job in jobs:
        values = _values(job, str(folder), options, image)
        if kind == "airflow" and re.search(r"\{[{%#]", f"{shlex.join(values['command'])} {folder}"):
            raise DataError(f"{job.file}: Airflow would read this path or option as a template")
        for template, file in _FILES[kind].items():
            name, text = file.format(**values), environment.get_template(template).render(values)
            texts[name] = texts[name] + "\n" + text if name in texts else text
    return texts


def _values(job: ScheduledConfig, folder: str, options: Sequence[str], image: str | None) -> dict[str, Any]:
    """Return the values of a job in the templates."""
    arguments = ["-m", "evalplugin", "schedule", "--once", "--if-changed", *options]
    # The path of the config in a checkout or an image of the folder.
    relative = job.file.relative_to(folder) if job.file.is_relative_to(folder) else Path(job.file.name)
    inside = str(PurePosixPath(*relative.parts))
    return {
        "job": job,
        "times": f"{job.cron.expression} in {job.cron.timezone}",
        "version": __version__,
        "unit": f"evalplugin-{job.name}",
        "dag": f"evalplugin_{job.name.replace('-', '_')}",
        "folder": folder,
        "inside": inside,
        "command": [sys.executable, *arguments, str(job.file)],
        "command_inside": ["python", *arguments, inside],
        "image": image or f"evalplugin:{__version__}",
        "needed": ", ".join(job.variables),
        "otherwise": f" Without {_STORE}, runs are logged to {DEFAULT_URI}."
        if _STORE in job.variables
        else "",
        "secrets": list(dict.fromkeys((_STORE, *job.variables))),
        "passwords": [name for name in job.variables if name != _STORE],
        "grace_seconds": _GRACE_SECONDS,
    }


def _environment() -> jinja2.Environment:
    """Return the templates, with filters that quote values as each format reads them."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("evalplugin.schedule"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "repr": repr,
        "shell": shlex.join,
        "specifier": _specifier,
        "systemd": _systemd_word,
        "yaml": _yaml_scalar,
    }
    return environment


def _name(stem: str, taken: Sequence[str]) -> str:
    base = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-") or "bake-off"
    name, number = base[:_LONGEST_NAME].rstrip("-"), 2
    while name in taken:
        end = f"-{number}"
        name, number = base[: _LONGEST_NAME - len(end)].rstrip("-") + end, number + 1
    return name


def _specifier(text: str) -> str:
    return text.replace("%", "%%")


def _systemd_word(word: str) -> str:
    """Return a word of a command as systemd reads it."""
    word = _specifier(word).replace("$", "$$")
    if re.fullmatch(r"[\w@%+=:,./$-]+", word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _yaml_scalar(text: str) -> str:
    return yaml.safe_dump(text, allow_unicode=True, width=math.inf).removesuffix("\n").removesuffix("\n...")
