"""The command ``schedule``: bake-offs at fixed times."""

from __future__ import annotations

from pathlib import Path

import click

from evalplugin.cli import options
from evalplugin.cli.run import run_with
from evalplugin.cli.shared import echo, load_all, print_diagnostic


@options.command()
@click.option("--once", is_flag=True, help="Run now, and stop: for other schedulers and CI.")
@options.if_changed
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
        ("--data-home", None if data_home is None else str(data_home.absolute())),
    ]
    given = [(name, value) for name, value in pairs if value is not None]
    typed = [part for pair in given for part in pair]
    if outcome_file is not None and not once:
        raise click.UsageError("--outcome goes with --once; without it, stdout has the outcome of each run")
    changed = ["--if-changed"] if if_changed else []
    if once:
        argv = ["--resume", *typed, *map(str, configs), *changed]
        argv += ["--outcome", str(outcome_file)] if outcome_file is not None else []
        return run_with(context, argv)

    from evalplugin.schedule import Scheduler, scheduled_configs
    from evalplugin.tracking.location import resolve_uri

    checked = load_all(configs, overrides=overrides, data_home=data_home)
    jobs = scheduled_configs(checked, configs)
    for config in checked:
        if uri := tracking_uri or config.spec.tracking.uri:
            resolve_uri(uri)  # a store that no run could use is refused now
    return Scheduler(jobs, [*changed, *typed], write=echo, report=print_diagnostic).run()
