"""The command ``schedule``: bake-offs night after night."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from evalplugin.cli import options
from evalplugin.cli.shared import end_on_sigterm, load_all
from evalplugin.errors import EXIT_DONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evalplugin.schedule import Planned

__all__ = ["schedule"]

UNITS = ("cron", "systemd", "kubernetes", "github", "airflow")
ELSEWHERE = ("kubernetes", "github")  # those that run on other machines


@click.command()
@click.option("--once", is_flag=True, help="Run now, and stop: for other schedulers and CI.")
@options.if_changed
@click.option(
    "--print", "unit", type=click.Choice(UNITS), help="Print a unit for another scheduler, and stop."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="With --print: write its files to this folder instead.",
)
@click.option("--image", help="With --print kubernetes: the container image.")
@click.option("--tracking-uri", help="MLflow tracking URI; wins over the config's.")
@click.option("--experiment", help="MLflow experiment; wins over the config's.")
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
    out: Path | None,
    image: str | None,
    tracking_uri: str | None,
    experiment: str | None,
    outcome_file: Path | None,
    configs: tuple[Path, ...],
    overrides: tuple[str, ...],
    data_home: Path | None,
) -> int:
    """Run bake-offs by their schedules, until Ctrl-C or SIGTERM.

    One at a time, each in a process of its own, a line of JSON on stdout for each. A bake-off that was cut off is
    continued. Exit code: 0, or 130 where a bake-off was cut off by the end.
    """
    typed = [part for value in overrides for part in ("--set", value)]
    # Another machine has its data elsewhere.
    home = None if data_home is None or unit in ELSEWHERE else str(data_home.absolute())
    for name, value in (
        ("--tracking-uri", tracking_uri),
        ("--experiment", experiment),
        ("--data-home", home),
    ):
        typed += [name, value] if value is not None else []
    if (out or image) and unit is None:
        raise click.UsageError(f"{'--out' if out else '--image'} goes with --print")
    if outcome_file is not None and not once:
        raise click.UsageError("--outcome goes with --once; without it, stdout says what came of each run")
    if once and unit is not None:
        raise click.UsageError("--once runs now, --print prints a unit: choose one")
    if once:
        run = context.find_root().command.commands["run"]  # type: ignore[attr-defined]
        argv = ["--resume", *typed, *map(str, configs), *(["--if-changed"] if if_changed else [])]
        argv += ["--outcome", str(outcome_file)] if outcome_file is not None else []
        return int(run.main(argv, "evalplugin run", standalone_mode=False, obj=context.obj) or EXIT_DONE)

    from evalplugin.schedule import planned

    checked = load_all(configs, overrides, data_home)
    jobs = planned(checked, configs)
    if unit is not None:
        stores = {config.name: tracking_uri or config.spec.tracking.uri for config in checked}
        _show_unit(unit, jobs, typed, out, image, stores)
        return EXIT_DONE

    from evalplugin.schedule import Options, Scheduler

    end_on_sigterm()
    return Scheduler(
        jobs,
        Options(if_changed, tuple(typed)),
        write=click.echo,
        say=lambda text: click.echo(text, err=True),
    ).run()


def _show_unit(
    unit: str,
    jobs: Sequence[Planned],
    typed: Sequence[str],
    out: Path | None,
    image: str | None,
    stores: dict[str, str | None],
) -> None:
    from evalplugin.redaction import redact
    from evalplugin.schedule import units

    if any(redact(option) != option for option in typed):
        raise click.UsageError(
            "credentials do not belong into a unit; those of a tracking store go into the variable MLFLOW_TRACKING_URI"
        )
    for name, uri in stores.items():
        if unit in ELSEWHERE and uri is not None and uri.startswith("sqlite:"):
            click.echo(
                f"warning: {name} logs to {uri}, a file that is gone with the machine it runs on; name a server with "
                f"--tracking-uri, or leave tracking.uri out and set MLFLOW_TRACKING_URI",
                err=True,
            )
    files = units(unit, jobs, folder=Path.cwd(), options=typed, image=image)  # type: ignore[arg-type]
    if out is None:
        several = len(files) > 1
        click.echo(
            "\n".join(f"# file: {name}\n{text}" if several else text for name, text in files.items()),
            nl=False,
        )
        return
    out.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (out / name).write_text(text, encoding="utf-8")
        click.echo(str(out / name))
