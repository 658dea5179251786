"""The command ``run``: bake-offs, one config after the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from evalplugin.base.errors import EXIT_DONE, EXIT_FAILED, UnchangedError
from evalplugin.cli import options
from evalplugin.cli.shared import echo, load_all, open_checked


@options.command()
@options.configs
@options.set_value
@options.tracking_uri
@options.experiment
@options.data_home
@click.option("--dry-run", is_flag=True, help="Check, read and split the data, print the plan, and stop.")
@options.workers
@options.engine
@click.option(
    "--resume", "mode", flag_value="resume", help="Go on with the newest bake-off that was cut off."
)
@click.option(
    "--only",
    metavar="MODEL",
    multiple=True,
    help="Run this model of the config and no other, several times; a gate decides nothing then.",
)
@click.option("--fresh", "mode", flag_value="fresh", help="Compute all anew, take nothing from the store.")
@options.if_changed
@options.outcome_file
@click.option("--wide", is_flag=True, help="Show all metrics, the costs, and all links.")
@options.debug
def run(
    configs: tuple[Path, ...],
    overrides: tuple[str, ...],
    dry_run: bool,
    workers: int | None,
    mode: str | None,
    only: tuple[str, ...],
    if_changed: bool,
    outcome_file: Path | None,
    wide: bool,
    **where: Any,
) -> int:
    """Run bake-offs: fit, recommend, score, log to MLflow, and show who won.

    What was computed before is taken from the store (see `evalplugin cache`), and only the rest is computed.
    """
    for path in configs if only or mode == "fresh" else ():
        if path.suffix not in (".yaml", ".yml") and not path.exists():
            raise click.UsageError(
                f"{path} is not a config; is it a model? --only {path} runs it alone, with --fresh anew"
            )
    if if_changed and mode == "fresh":
        raise click.UsageError(
            "--if-changed does nothing where nothing has changed, --fresh asks for work all the same: choose one"
        )
    from evalplugin.cli import show

    observer = show.observer()
    if outcome_file is not None:
        from evalplugin.files.outputs import refuse_input

        refuse_input(outcome_file, configs)
    # All configs are checked before the first one runs: a mistake in the last must not cost the work of the first.
    try:
        checked = load_all(
            configs, overrides=overrides, data_home=where["data_home"], engine=where.pop("engine")
        )
        workspaces = open_checked(checked, observer, mode=mode or "run", only=only, **where)
    except Exception as error:
        if not dry_run:
            from evalplugin.features.notifications.feature import tell_of_failure

            for path in configs:
                tell_of_failure(
                    error, path, observer,
                    overrides=overrides, experiment=where["experiment"], outcome_file=outcome_file,
                )  # fmt: skip
        raise
    if dry_run:
        from evalplugin.bakeoff.dry_run import dry_run as planned

        for workspace in workspaces:
            show.show_dry_run(planned(workspace))
        return EXIT_DONE

    from evalplugin.bakeoff.flow import run_bakeoff

    failed = False
    for path, workspace in zip(configs, workspaces, strict=True):
        workspace = replace(workspace, if_changed=if_changed, outcome_file=outcome_file)
        try:
            bakeoff = run_bakeoff(workspace, workers=workers, command=_command_line(path))
        except UnchangedError as nothing:
            echo(f"{workspace.config.name}: {nothing}")
            continue
        show.show_bakeoff(bakeoff, wide=wide)
        failed = failed or bakeoff.fails
    return EXIT_FAILED if failed else EXIT_DONE


def run_with(context: click.Context, argv: list[str]) -> int:
    """Run the command ``run`` from within another one, and return its exit code."""
    return int(run.main(argv, "run", standalone_mode=False, parent=context.parent) or EXIT_DONE)


_REPEATED = ("overrides", "tracking_uri", "experiment", "data_home", "workers", "engine", "only")


def _command_line(config: Path) -> list[str]:
    """Return the arguments of ``run`` for one of its configs, as they were given."""
    context = click.get_current_context()
    typed = [str(config)]
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE
        if given and parameter.name in _REPEATED:
            value = context.params[parameter.name]
            for part in value if isinstance(value, tuple) else (value,):
                typed += [parameter.opts[0], str(part)]
    return typed
