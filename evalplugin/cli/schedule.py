"""The command ``schedule``: bake-offs at fixed times, or units for other schedulers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evalplugin.base.errors import EXIT_DONE, KeyPath
from evalplugin.base.secrets import redact, register_uri
from evalplugin.cli import options
from evalplugin.cli.run import run_with
from evalplugin.cli.shared import echo, load_all, print_diagnostic, show_warning

if TYPE_CHECKING:
    from evalplugin.schedule import ScheduledConfig

UNITS = ("cron", "systemd", "kubernetes", "github", "airflow", "dagster", "databricks")
REMOTE_UNITS = ("kubernetes", "github", "databricks")  # they run on other machines
# A URL that holds no secret: a host and placeholders of environment variables.
_PUBLIC = re.compile(r"(?:https?://[^/?#@\s]*)?(?:/*\$\{\w+\})*/*")


@options.command()
@click.option("--once", is_flag=True, help="Run now, and stop: for other schedulers and CI.")
@options.if_changed
@click.option(
    "--print", "unit", type=click.Choice(UNITS), help="Print a unit for another scheduler, and stop."
)
@click.option(
    "--out",
    type=options.Output(path_type=Path, file_okay=False),
    help="With --print: write its files to this folder instead.",
)
@click.option("--image", help="With --print kubernetes: the container image.")
@options.tracking_uri
@options.experiment
@options.outcome_file
@options.configs
@options.data_home
@options.set_value
@options.debug
@click.pass_context
def schedule(
    context: click.Context,
    once: bool,
    if_changed: bool,
    unit: str | None,
    out: str | Path | None,
    image: str | None,
    tracking_uri: str | None,
    experiment: str | None,
    outcome_file: Path | None,
    configs: tuple[Path, ...],
    overrides: tuple[str, ...],
    data_home: Path | None,
) -> int:
    """Run bake-offs by their schedules, until Ctrl-C or SIGTERM.

    One at a time, each in a process of its own, a line of JSON on stdout for each; --once prints what `run` does. A
    bake-off that was cut off is continued. Exit code: with --once that of `run`; else 0, or 130 where a bake-off was
    cut off by the end.
    """
    pairs = [
        *(("--set", value) for value in overrides),
        ("--tracking-uri", tracking_uri),
        ("--experiment", experiment),
        ("--data-home", _data_home_of(context, data_home, unit)),
    ]
    given = [(name, value) for name, value in pairs if value is not None]
    typed = [part for pair in given for part in pair]
    if out is not None and unit is None:
        raise click.UsageError("--out goes with --print")
    if image is not None and unit != "kubernetes":
        raise click.UsageError("--image goes with --print kubernetes")
    if outcome_file is not None and not once:
        raise click.UsageError("--outcome goes with --once; without it, stdout says what came of each run")
    if once and unit is not None:
        raise click.UsageError("--once runs now, --print prints a unit: choose one")
    changed = ["--if-changed"] if if_changed else []
    if once:
        argv = ["--resume", *typed, *map(str, configs), *changed]
        argv += ["--outcome", str(outcome_file)] if outcome_file is not None else []
        return run_with(context, argv)

    from evalplugin.schedule import Scheduler, scheduled_configs

    checked = load_all(configs, overrides=overrides, data_home=data_home, runs_here=unit is None)
    jobs = scheduled_configs(checked, configs, tracking_uri=tracking_uri)
    stores = {config.name: tracking_uri or config.spec.tracking.uri for config in checked}
    if unit is None:
        _check_stores(stores, unit)
        return Scheduler(jobs, [*changed, *typed], write=echo, report=print_diagnostic).run()
    _refuse_secrets(given)
    _check_stores(stores, unit)
    _write_unit(unit, jobs, typed, out, image)
    return EXIT_DONE


def _data_home_of(context: click.Context, data_home: Path | None, unit: str | None) -> str | None:
    """Return the folder of datasets to pass to a run; None to pass none."""
    if data_home is None:
        return None
    if unit not in REMOTE_UNITS:
        return str(data_home.absolute())
    # An option is meant for the other machine, a variable of the environment for this one.
    typed = context.get_parameter_source("data_home") is click.core.ParameterSource.COMMANDLINE
    return str(data_home) if typed else None


def _check_stores(stores: Mapping[str, str | None], unit: str | None) -> None:
    """Warn of tracking stores, by config, that are files on the machine of a run and are lost with it.

    Raises:
        TrackingError: A store that a scheduled run could not use.
    """
    from evalplugin.base.tracking_uri import check_tracking_uri, store_kind
    from evalplugin.tracking.location import resolve_uri

    for name, uri in stores.items():
        if uri is None:
            continue
        if unit is None:
            resolve_uri(uri)
        else:  # a unit may run elsewhere, where the driver of the database is installed
            check_tracking_uri(uri)
        if store_kind(uri) == "sqlite" and unit in REMOTE_UNITS:
            show_warning(
                f"{name} logs to {uri}, a file that is gone with the machine it runs on; name a server with "
                f"--tracking-uri, or leave tracking.uri out and set MLFLOW_TRACKING_URI"
            )


def _refuse_secrets(given: Sequence[tuple[str, str]]) -> None:
    """Refuse options with secrets, which a unit would show to all its readers."""
    from evalplugin.config.document import parse_override

    for option, value in given:
        if option == "--tracking-uri":
            register_uri(value)
        key = value.partition("=")[0].strip() if option == "--set" else ""
        if key.split(".")[0] == "notify" and not all(
            map(_PUBLIC.fullmatch, _notify_texts(*parse_override(value)))
        ):
            raise click.UsageError(
                f"--set {key}: an address or a command may hold a secret, which a unit would show; write it into the "
                f"config, with ${{NAME}} in place of what is secret"
            )
        if (redacted := redact(value)) != value:
            instead = "write it into the config"
            if option == "--tracking-uri" or key.split(".")[0] == "tracking":
                instead = (
                    "name no store here or in the config, and set MLFLOW_TRACKING_URI where the unit runs"
                )
            raise click.UsageError(f"{option} {redacted}: credentials do not belong into a unit; {instead}")


def _notify_texts(path: KeyPath, value: Any) -> list[str]:
    """Return the URL or the parts of the command that an assignment to ``notify`` sets."""
    if len(path) == 1:
        parts = value.items() if isinstance(value, dict) else ()
        return [text for key, part in parts for text in _notify_texts((*path, key), part)]
    if path[1] not in ("url", "command") or value is None:
        return []
    return [str(text) for text in (value if isinstance(value, list) else [value])]


def _write_unit(
    unit: str,
    jobs: Sequence[ScheduledConfig],
    typed: Sequence[str],
    out: str | Path | None,
    image: str | None,
) -> None:
    from evalplugin.schedule import units

    files = units(unit, jobs, folder=Path.cwd(), options=typed, image=image)
    if out is None:
        several = len(files) > 1
        echo(
            "\n".join(f"# file: {name}\n{text}" if several else text for name, text in files.items()),
            nl=False,
        )
        return
    from evalplugin.files.outputs import open_output, refuse_input

    try:
        if isinstance(out, Path):
            out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            refuse_input(f"{out}/{name}", [job.file for job in jobs])
            with open_output(f"{out}/{name}") as file:
                file.write(text.encode())
    except OSError as error:
        raise click.UsageError(f"--out {out}: cannot write {error.filename}: {error.strerror}") from None
    for name in files:
        echo(f"{out}/{name}")
