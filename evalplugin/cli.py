"""The command line: the only place that prints. Data goes to stdout, talk to stderr."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from evalplugin import __version__
from evalplugin.cli_compare import compare
from evalplugin.cli_gate import gate
from evalplugin.cli_schedule import history, if_changed, outcome_file, schedule
from evalplugin.cli_shared import end_on_sigterm, load_all
from evalplugin.cli_store import cache, sync
from evalplugin.errors import (
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    EvalpluginError,
    UnchangedError,
)
from evalplugin.redaction import hide, redact
from evalplugin.sizes import count_text

if TYPE_CHECKING:
    from evalplugin.bakeoff import Mode
    from evalplugin.registry import Registry

__all__ = ["main", "script"]

KINDS = ("models", "metrics", "datasets", "splits", "segments")
DATA_HOME = "EVALPLUGIN_DATA_HOME"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 failed, 2 bad config or usage, 130 interrupted."""
    options = {"debug": False}
    try:
        code = cli.main(
            list(sys.argv[1:] if argv is None else argv), "evalplugin", standalone_mode=False, obj=options
        )
        return code if isinstance(code, int) else EXIT_DONE
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return EXIT_USAGE
    except click.ClickException as error:
        error.show(sys.stderr)
        return EXIT_USAGE
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing more to say, and no traceback at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except EvalpluginError as error:
        if options["debug"]:
            click.echo(hide(traceback.format_exc()), nl=False, err=True)
        else:
            click.echo(f"{_styled('error:')} {error}" if "\n" not in str(error) else str(error), err=True)
        return error.exit_code
    except Exception:  # noqa: BLE001 - the edge of the program: shown whole
        click.echo(redact(traceback.format_exc()), nl=False, err=True)
        click.echo("this is a defect of evalplugin or of a plugin: please report the lines above", err=True)
        return EXIT_FAILED


def script() -> None:
    """Run a command and exit: the console script."""
    sys.exit(main())


def _styled(text: str) -> str:
    return click.style(text, fg="red", bold=True)


def _debug(command: Callable[..., Any]) -> Callable[..., Any]:
    def note(context: click.Context, parameter: click.Parameter, value: bool) -> None:
        if value:
            context.find_root().obj["debug"] = True

    return click.option(
        "--debug", is_flag=True, expose_value=False, callback=note, help="Show the traceback of an error."
    )(command)


_set = click.option(
    "--set",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set a value of the config, such as models.0.params.k=20; may be given several times.",
)
_data_home = click.option(
    "--data-home",
    type=click.Path(path_type=Path, file_okay=False),
    envvar=DATA_HOME,
    show_envvar=True,
    help="Folder of downloaded datasets.",
)
_plugin = click.option(
    "--plugin",
    "plugins",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A Python file with components of your own, loaded first.",
)
_configs = click.argument(
    "configs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="CONFIG..."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, message="%(version)s")
@_debug
def cli() -> None:
    """Evidence-grade bake-offs of recommenders, inside MLflow."""


@cli.command()
@_configs
@_set
@click.option("--tracking-uri", help="MLflow tracking URI; wins over the config's.")
@click.option("--experiment", help="MLflow experiment; wins over the config's.")
@_data_home
@click.option("--dry-run", is_flag=True, help="Check, read and split the data, print the plan, and stop.")
@click.option(
    "--workers", type=click.IntRange(1), metavar="N", help="Tasks at a time; wins over the config's."
)
@click.option(
    "--resume", "mode", flag_value="resume", help="Go on with the newest bake-off that was cut off."
)
@click.option("--fresh", "mode", flag_value="fresh", help="Compute all anew, take nothing from the store.")
@click.option("--sync", "mode", flag_value="sync", hidden=True)
@if_changed
@outcome_file
@_debug
def run(
    configs: tuple[Path, ...],
    overrides: tuple[str, ...],
    tracking_uri: str | None,
    experiment: str | None,
    data_home: Path | None,
    dry_run: bool,
    workers: int | None,
    mode: str | None,
    if_changed: bool,
    outcome_file: Path | None,
) -> int:
    """Run bake-offs: fit, recommend, score, log to MLflow, and show who won.

    What was computed before is taken from the store (see `evalplugin cache`), and only the rest is computed.
    """
    from evalplugin import terminal

    # All configs are checked before the first one runs: a mistake in the last must not cost the work of the first.
    checked = load_all(configs, overrides, data_home)
    end_on_sigterm()
    observer = terminal.observer()
    if dry_run:
        from evalplugin.plan import plan

        for config in checked:
            terminal.show_plan(plan(config, data_home, observer))
        return EXIT_DONE

    from evalplugin.notify import Message, run_and_tell

    def hear(message: Message) -> None:
        if outcome_file is not None:
            with outcome_file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(message, ensure_ascii=False) + "\n")

    failed = False
    for path, config in zip(configs, checked, strict=True):
        try:
            outcome = run_and_tell(
                config,
                data_home=data_home,
                tracking_uri=tracking_uri,
                experiment=experiment,
                observer=observer,
                hear=hear,
                mode=cast("Mode", mode or "run"),
                workers=workers,
                command=_as_typed(path),
                if_changed=if_changed,
            )
        except UnchangedError as nothing:
            click.echo(f"{config.name}: {nothing}")
            continue
        terminal.show_outcome(outcome)
        failed = failed or bool(outcome.result.failed)
        if outcome.decision is not None and (gate := config.spec.gate) is not None:
            from evalplugin.terminal_gate import show_decision

            show_decision(outcome.decision)
            failed = failed or outcome.decision.exit_code(gate.fail_on) != EXIT_DONE
    return EXIT_FAILED if failed else EXIT_DONE


@cli.command()
@_configs
@_set
@_data_home
@_debug
def validate(configs: tuple[Path, ...], overrides: tuple[str, ...], data_home: Path | None) -> int:
    """Check configs without reading data: every mistake is shown with its place."""
    for config in load_all(configs, overrides, data_home):
        sizes = " x ".join(
            count_text(len(things), kind)
            for things, kind in (
                (config.models, "model"),
                (config.datasets, "dataset"),
                (config.splits, "split"),
            )
        )
        click.echo(f"{config.name}: valid: {sizes}, {count_text(len(config.metrics), 'metric')}")
    return EXIT_DONE


@cli.command()
@click.option(
    "--lists", required=True, metavar="FILES", help="The lists: a file, a folder of Parquet files, a pattern."
)
@click.option("--truth", required=True, metavar="FILES", help="The held-out interactions.")
@click.option("--train", metavar="FILES", help="The train data, for metrics that need it.")
@click.option(
    "-m", "--metric", "metrics", multiple=True, metavar="NAME", help="Such as ndcg@10; several times."
)
@click.option(
    "--as", "profile", metavar="LIBRARY", help="Compute what a library computes under its own names."
)
@click.option("--threshold", type=float, help="Ratings from it on are relevant; else all above 0.")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="Write per-user scores: .parquet, .csv."
)
@click.option(
    "--format", "shown", type=click.Choice(["table", "json", "csv"]), default="table", help="Of the means."
)
@click.option(
    "--input-format", type=click.Choice(["auto", "csv", "parquet", "trec"]), default="auto",
    help="auto: by the names of the files; trec: a run and qrels.",
)  # fmt: skip
@click.option(
    "--ids", type=click.Choice(["auto", "text"]), default="auto", help="How ids in CSV files are read."
)
@click.option(
    "--memory", metavar="SIZE", help="Such as 2GB: Parquet files that need more are scored in parts."
)
@click.option("--user", default="user", show_default=True, metavar="COLUMN", help="User ids.")
@click.option("--item", default="item", show_default=True, metavar="COLUMN", help="Item ids.")
@click.option("--rank", metavar="COLUMN", help="Ranks 1, 2, 3 ... of the lists.")
@click.option("--score", metavar="COLUMN", help="Scores of the lists, highest first.")
@click.option("--rating", metavar="COLUMN", help="Ratings of the truth.")
@click.option("--truth-user", metavar="COLUMN", help="User ids in truth and train data, if called otherwise.")
@click.option("--truth-item", metavar="COLUMN", help="Item ids there.")
@click.option("--log", "logged", is_flag=True, help="Log an MLflow run, like a model's.")
@click.option("--name", help="Name of that run; else that of the lists' file.")
@click.option("--tracking-uri", help="MLflow tracking URI.")
@click.option("--experiment", default="lists", show_default=True, help="MLflow experiment.")
@_debug
def score(
    metrics: tuple[str, ...],
    profile: str | None,
    shown: str,
    input_format: Any,
    ids: str,
    logged: bool,
    name: str | None,
    tracking_uri: str | None,
    experiment: str,
    user: str,
    item: str,
    rank: str | None,
    score: str | None,
    rating: str | None,
    truth_user: str | None,
    truth_item: str | None,
    **asked: Any,
) -> int:
    """Score lists from any system: CSV, Parquet or TREC files."""
    from evalplugin import score_command
    from evalplugin.lists import Columns
    from evalplugin.lists.output import csv_text, json_text, numbers_csv, numbers_json, rows_of

    end_on_sigterm()
    columns = Columns(user, item, rank, score, rating, truth_user, truth_item)
    request = score_command.Request(
        metrics=metrics, format=input_format, text_ids=ids == "text", columns=columns, for_log=logged, **asked
    )
    if profile is not None:
        numbers = score_command.score_as(request, profile)
        if shown == "table":
            from evalplugin.terminal import show_numbers

            show_numbers(numbers, title=f"{asked['lists']}, as {profile}")
        else:
            click.echo(numbers_json(numbers) if shown == "json" else numbers_csv(numbers))
        return EXIT_DONE
    scores, specs = score_command.score(request, lambda text: click.echo(text, err=True))
    rows = rows_of(scores)
    if shown == "table":
        from evalplugin.terminal import show_scores

        show_scores(rows, title=asked["lists"])
    else:
        click.echo(json_text(rows) if shown == "json" else csv_text(rows))
    if logged:
        called = name or Path(asked["lists"]).stem
        links = score_command.log(
            request, scores, specs, name=called, experiment=experiment, tracking_uri=tracking_uri
        )
        for label, text in links.items():
            click.echo(f"{label:<8} {text}", err=shown != "table")
    return EXIT_DONE


_debug(_plugin(compare))  # options that it shares with other commands
cli.add_command(compare)
_debug(_plugin(_set(gate)))
cli.add_command(gate)
_debug(_set(_data_home(_configs(schedule))))
cli.add_command(schedule)
_debug(_plugin(history))
cli.add_command(history)
_debug(sync)
cli.add_command(sync)
cli.add_command(cache)


@cli.command("list")
@click.argument("kind", type=click.Choice(KINDS))
@_plugin
@_debug
def list_(kind: str, plugins: tuple[Path, ...]) -> int:
    """List what a config can name: models, metrics, datasets, splits or segments."""
    registry = _registry(kind, plugins)
    entries = list(registry)
    width = max(len(entry.name) for entry in entries)
    for entry in entries:
        # What is built in needs no word on where it came from.
        origin = "" if entry.origin.startswith("evalplugin.") else f"  [{entry.origin}]"
        click.echo(f"{entry.name:<{width}}  {entry.summary}{origin}")
    return EXIT_DONE


@cli.command()
@click.argument("kind", type=click.Choice([kind.removesuffix("s") for kind in KINDS]))
@click.argument("name")
@_plugin
@_debug
def describe(kind: str, name: str, plugins: tuple[Path, ...]) -> int:
    """Describe a model, metric, dataset, split or segment: definition, parameters, source."""
    from inspect import cleandoc

    from evalplugin.parameters import parameters_of

    entry = _registry(f"{kind}s", plugins).entry(name)
    click.echo(f"{kind} {click.style(entry.name, bold=True)}  ({entry.origin})\n")
    if entry.summary:
        click.echo(f"{cleandoc(entry.cls.__doc__ or '')}\n")
    parameters = parameters_of(entry.cls)
    click.echo("Parameters:" if parameters else "It takes no parameters.")
    for parameter in parameters:
        default = "required" if parameter.required else f"default {json.dumps(parameter.default)}"
        kind_of = parameter.type if parameter.type == "mapping" else f"{parameter.type}; {default}"
        click.echo(f"  {click.style(parameter.name, bold=True)}: {kind_of}")
        if parameter.description:
            click.echo(f"      {parameter.description}")
    return EXIT_DONE


@cli.command()
@_debug
def schema() -> int:
    """Print the JSON Schema of configs, for editors."""
    from evalplugin.config.json_schema import json_schema

    click.echo(json.dumps(json_schema(), indent=2))
    return EXIT_DONE


def _as_typed(config: Path) -> list[str]:
    """Return what was typed behind ``run`` for one of its configs, to be typed again."""
    context = click.get_current_context()
    typed = [str(config)]
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE
        if given and parameter.name in ("overrides", "tracking_uri", "experiment", "data_home", "workers"):
            value = context.params[parameter.name]
            for one in value if isinstance(value, tuple) else (value,):
                typed += [parameter.opts[0], str(one)]
    return typed


def _registry(kind: str, plugins: Sequence[Path]) -> Registry[Any]:
    from evalplugin import data, metrics, models, segments
    from evalplugin.registry import load_plugin_file

    for path in plugins:
        load_plugin_file(path)
    registries: dict[str, Registry[Any]] = {
        "models": models.MODELS,
        "metrics": metrics.METRICS,
        "datasets": data.DATASETS,
        "splits": data.SPLITS,
        "segments": segments.SEGMENTS,
    }
    return registries[kind]
