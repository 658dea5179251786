"""Units for cron, systemd, Kubernetes, GitHub Actions and Airflow; each runs a bake-off once, if anything changed."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

from evalplugin._version import __version__
from evalplugin.base.errors import ConfigError, DataError
from evalplugin.base.placeholders import variables_in
from evalplugin.config import CheckedConfig
from evalplugin.config.cron import Cron
from evalplugin.config.sections import Schedule
from evalplugin.tracking.location import DEFAULT_URI

__all__ = ["KINDS", "Kind", "Planned", "planned", "units"]

Kind = Literal["cron", "systemd", "kubernetes", "github", "airflow"]
KINDS: tuple[Kind, ...] = get_args(Kind)

# A CronJob's name may have 52 characters; with this many ours fit behind what each kind puts before them.
_LONGEST_NAME = 41
_STORE = "MLFLOW_TRACKING_URI"
_GRACE_SECONDS = 90  # that a bake-off has to end its runs when it is told to stop


@dataclass(frozen=True)
class Planned:
    """A config that is to be run by schedule."""

    name: str  # of the unit: a few lower-case letters, digits and hyphens; different for every config
    file: Path  # absolute
    schedule: Schedule
    cron: Cron
    variables: tuple[str, ...]  # of the environment, that it asks for


def planned(
    configs: Sequence[CheckedConfig], files: Sequence[Path], *, tracking_uri: str | None = None
) -> list[Planned]:
    """Return the configs with their schedules; ``files`` are where they stand, in the same order.

    ``tracking_uri`` wins over the configs'.

    Raises:
        ConfigError: Some have no schedule, or one is given twice.
    """
    places = [file.resolve() for file in files]
    twice = dict.fromkeys(str(file) for n, file in enumerate(files) if places[n] in places[:n])
    if twice:
        raise ConfigError([f"{file}: is given twice; give each config once" for file in twice])
    without = [config.name for config in configs if config.spec.schedule is None]
    if without:
        add = "schedule: {cron: 0 3 * * *, timezone: Europe/Berlin}"
        raise ConfigError([f"{name}: has no schedule; add one, such as {add}" for name in without])
    found: list[Planned] = []
    for config, file in zip(configs, files, strict=True):
        schedule, notify = config.spec.schedule, config.spec.notify
        assert schedule is not None
        variables = variables_in(*notify.texts) if notify else []
        if not (tracking_uri or config.spec.tracking.uri):
            variables.insert(0, _STORE)
        found.append(
            Planned(
                name=_name(file.stem, [one.name for one in found]),
                file=file.absolute(),
                schedule=schedule,
                cron=Cron.of(schedule.cron, schedule.timezone),
                variables=tuple(dict.fromkeys(variables)),
            )
        )
    return found


def units(
    kind: Kind,
    jobs: Sequence[Planned],
    *,
    folder: Path,
    options: Sequence[str] = (),
    image: str | None = None,
) -> dict[str, str]:
    """Return the files of a unit by name.

    Args:
        kind: For which scheduler.
        jobs: What ``planned`` returned.
        folder: The working directory, absolute: relative paths of tracking stores are relative to it.
        options: Of the command line, to be handed on.
        image: The container image, for Kubernetes.

    Raises:
        DataError: A path that a format cannot hold.
    """
    for text in (str(folder), *options, *(str(job.file) for job in jobs)):
        if not text.isprintable():
            raise DataError(
                f"{text!r}: a unit cannot hold this path or option: it has characters that cannot be printed"
            )
    make: dict[Kind, Callable[[Planned], Mapping[str, str]]] = {
        "cron": lambda job: _cron(job, folder, options),
        "systemd": lambda job: _systemd(job, folder, options),
        "kubernetes": lambda job: _kubernetes(job, folder, options, image),
        "github": lambda job: _github(job, folder, options),
        "airflow": lambda job: _airflow(job, folder, options),
    }
    found: dict[str, str] = {}
    for job in jobs:
        for name, text in make[kind](job).items():
            found[name] = found[name] + "\n" + text if name in found else text
    return found


def _cron(job: Planned, folder: Path, options: Sequence[str]) -> dict[str, str]:
    run = f"cd {shlex.quote(str(folder))} && {shlex.join(_command(job, options))} >> {job.name}.log 2>&1"
    return {
        "evalplugin.crontab": "".join(
            [
                *_head(job, "Lines of a crontab: crontab -e"),
                "# A cron that does not know CRON_TZ, as Debian's, reads the five fields in the machine's own time.\n",
                *_needed(job, "Set {} here or in the environment of cron."),
                f"CRON_TZ={job.cron.timezone}\n",
                # To cron, a percent sign ends the command.
                f"{job.cron.portable} {run.replace('%', chr(92) + '%')}\n",
            ]
        )
    }


def _systemd(job: Planned, folder: Path, options: Sequence[str]) -> dict[str, str]:
    unit = f"evalplugin-{job.name}"
    install = (
        f"Into ~/.config/systemd/user; then: systemctl --user enable --now {unit}.timer; and, so that it runs "
        f"while nobody is logged in: loginctl enable-linger"
    )
    service = [
        *_head(job, install),
        f"[Unit]\nDescription=Bake-off {_specifier(job.file.name)}\n\n",
        f"[Service]\nType=oneshot\nWorkingDirectory={_specifier(str(folder))}\n",
        *_needed(job, "KEY=value lines with {}."),
        "EnvironmentFile=-%h/.config/evalplugin.env\n",
        f"ExecStart={' '.join(map(_quoted, _command(job, options)))}\n",
        f"# Told to stop, the bake-off ends its runs as KILLED.\nTimeoutStopSec={_GRACE_SECONDS}\n",
        "SuccessExitStatus=130\n",
    ]
    timer = [
        *_head(job, install),
        f"[Unit]\nDescription=When the bake-off {_specifier(job.file.name)} runs\n\n",
        "[Timer]\n",
        *(f"OnCalendar={times}\n" for times in job.cron.calendar),
        "# What was missed while the machine was off is made up for, once.\nPersistent=true\n\n",
        "[Install]\nWantedBy=timers.target\n",
    ]
    return {f"{unit}.service": "".join(service), f"{unit}.timer": "".join(timer)}


def _kubernetes(job: Planned, folder: Path, options: Sequence[str], image: str | None) -> dict[str, str]:
    name = f"evalplugin-{job.name}"
    container = {
        "name": "bake-off",
        "image": image or f"evalplugin:{__version__}",
        "command": ["python", *_command(job, options, file=_inside(job.file, folder))[1:]],
        "envFrom": [{"secretRef": {"name": name, "optional": not job.variables}}],
    }
    spec = {
        "schedule": job.cron.portable,
        "timeZone": job.cron.timezone,
        "concurrencyPolicy": "Forbid",
        "startingDeadlineSeconds": max(10, round(job.schedule.catch_up_hours * 3600)),
        "jobTemplate": {
            "spec": {
                # What failed or was refused would fail again.
                "backoffLimit": 0,
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "terminationGracePeriodSeconds": _GRACE_SECONDS,
                        "containers": [container],
                    }
                },
            }
        },
    }
    manifest = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": spec}
    needed = ", ".join(dict.fromkeys((_STORE, *job.variables)))
    head = [
        *_head(job, "For: kubectl apply -f"),
        f"# The image (--image names yours) has evalplugin and, where it starts, {_inside(job.file, folder)}.\n",
        f"# The secret {name} holds {needed}.\n",
    ]
    return {f"{name}-cronjob.yaml": "".join(head) + "---\n" + _yaml(manifest)}


def _github(job: Planned, folder: Path, options: Sequence[str]) -> dict[str, str]:
    name = f"evalplugin-{job.name}"
    when = {"cron": job.cron.portable}
    if job.cron.timezone != "UTC":
        when["timezone"] = job.cron.timezone
    names = tuple(dict.fromkeys((_STORE, *job.variables)))
    run = shlex.join(["python", *_command(job, options, file=_inside(job.file, folder))[1:]])
    steps = [
        {"uses": "actions/checkout@v5"},
        {"uses": "actions/setup-python@v6", "with": {"python-version": "3.12"}},
        {"run": "python -m pip install -r requirements.txt"},
        {"run": run},
    ]
    workflow = {
        "name": name,
        "on": {"schedule": [when], "workflow_dispatch": {}},
        "permissions": {"contents": "read"},
        "concurrency": {"group": name, "cancel-in-progress": False},
        "jobs": {
            "bake-off": {
                "runs-on": "ubuntu-latest",
                "env": {one: f"${{{{ secrets.{one} }}}}" for one in names},
                "steps": steps,
            }
        },
    }
    head = [
        *_head(job, f".github/workflows/{name}.yml"),
        f"# The repository's secrets: {', '.join(names)}.\n",
        f"# Its requirements.txt says where evalplugin comes from, which is not PyPI: a wheel such as "
        f"./evalplugin-{__version__}-py3-none-any.whl, or git+https://...\n",
    ]
    return {f"{name}.yml": "".join(head) + _yaml(workflow)}


def _airflow(job: Planned, folder: Path, options: Sequence[str]) -> dict[str, str]:
    command = shlex.join(_command(job, options))
    if re.search(r"\{[{%#]", f"{command} {folder}"):
        raise DataError(f"{job.file}: Airflow would read this path or option as a template")
    name = f"evalplugin_{job.name.replace('-', '_')}"
    needed = _needed(job, "The workers' environment has {}.")
    text = f"""\
import pendulum
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG(
    dag_id={name!r},
    schedule={job.cron.portable!r},
    start_date=pendulum.datetime(2024, 1, 1, tz={job.cron.timezone!r}),
    catchup=False,
    max_active_runs=1,
    tags=["evalplugin"],
):
    BashOperator(
        task_id="bake_off",
        # A command that ended in .sh would be read as the name of a template.
        bash_command={command + " "!r},
        cwd={str(folder)!r},
    )
"""
    return {f"{name}.py": "".join([*_head(job, "For the DAGs folder of Airflow 3."), *needed, text])}


def _command(job: Planned, options: Sequence[str], *, file: str | None = None) -> list[str]:
    return [
        sys.executable,
        "-m",
        "evalplugin",
        "schedule",
        "--once",
        "--if-changed",
        *options,
        file or str(job.file),
    ]


def _head(job: Planned, install: str) -> list[str]:
    when = f"{job.cron.expression} in {job.cron.timezone}"
    return [f"# Bake-off {job.file.name}, {when}; made by evalplugin {__version__}.\n", f"# {install}\n"]


def _needed(job: Planned, where: str) -> list[str]:
    """Return the line that names the variables of the environment, if there are any."""
    if not job.variables:
        return []
    otherwise = f" Without {_STORE}, runs are logged to {DEFAULT_URI}." if _STORE in job.variables else ""
    return [f"# {where.format(', '.join(job.variables))}{otherwise}\n"]


def _inside(file: Path, folder: Path) -> str:
    """Return where a config stands in a checkout or an image of the folder."""
    inside = file.relative_to(folder) if file.is_relative_to(folder) else Path(file.name)
    return str(PurePosixPath(*inside.parts))


def _name(stem: str, taken: Sequence[str]) -> str:
    base = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-") or "bake-off"
    name, number = base[:_LONGEST_NAME].rstrip("-"), 2
    while name in taken:
        end = f"-{number}"
        name, number = base[: _LONGEST_NAME - len(end)].rstrip("-") + end, number + 1
    return name


def _specifier(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    """Return a word of a command as systemd reads it."""
    word = _specifier(word).replace("$", "$$")
    if re.fullmatch(r"[\w@%+=:,./$-]+", word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _yaml(value: Any) -> str:
    import yaml

    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=1000)
