"""The command ``describe``: the definition and the parameters of one component."""

from __future__ import annotations

import json

import click

from evalplugin.base.errors import EXIT_DONE
from evalplugin.base.text import escape_controls
from evalplugin.cli import options
from evalplugin.cli.list import COMPONENT_KINDS, registry_of
from evalplugin.cli.shared import echo

_CACHED = (
    "Its results are stored, and computed again when its parameters, its code, a file that it opens, or a file or URI\n"
    "that a parameter names has changed. What it reads over the network, from a database or in another process is not\n"
    "seen: a model declares it under `inputs`, and --fresh computes anew:\n"
    "https://evalplugin.github.io/evalplugin/explanation/caching.html"
)


@options.command()
@click.argument("kind", type=click.Choice([*(kind.removesuffix("s") for kind in COMPONENT_KINDS), "check"]))
@click.argument("name")
@options.plugin
@options.debug
def describe(kind: str, name: str) -> int:
    """Describe a model, metric, dataset, filter, split, segment, engine or check: definition, parameters, source."""
    if kind == "check":
        _describe_check(name)
        return EXIT_DONE
    from inspect import cleandoc

    from evalplugin.components.parameters import parameters_of

    entry = registry_of(f"{kind}s").entry(name)
    click.echo(f"{kind} {_bold(entry.name)}  ({escape_controls(entry.origin)})\n")
    if entry.summary:
        echo(f"{cleandoc(entry.cls.__doc__ or '')}\n")
    if kind == "model":
        from evalplugin.models.base import cold_answer, may_take_history

        echo(f"Users without train data get: {cold_answer(entry.cls) or 'what the model answers'}.")
        can = "get lists by it" if may_take_history(entry.cls) else "cannot be answered"
        echo(f"Users who are known by a history alone (split new_users) {can}.\n")
    parameters = parameters_of(entry.cls)
    echo("Parameters:" if parameters else "It takes no parameters.")
    for parameter in parameters:
        default = "required" if parameter.required else f"default {json.dumps(parameter.default)}"
        kind_of = parameter.type if parameter.type == "mapping" else f"{parameter.type}; {default}"
        click.echo(f"  {_bold(parameter.name)}: {escape_controls(kind_of)}")
        if parameter.description:
            echo(f"      {parameter.description}")
    if not entry.is_own and kind in ("model", "metric", "split"):
        echo(f"\n{_CACHED}")
    return EXIT_DONE


def _describe_check(code: str) -> None:
    from textwrap import fill

    from evalplugin.features.checks.catalogue import check_of

    check = check_of(code)
    click.echo(f"check {_bold(check.code)}: {check.title}")
    for head, text in (
        ("When", check.rule),
        ("Why it matters", check.why),
        ("Source", check.source),
        ("What to do", check.remedy),
        ("More", check.url),
    ):
        echo("\n" + fill(f"{head}: {text}", 110, break_long_words=False, break_on_hyphens=False))


def _bold(text: str) -> str:
    return click.style(escape_controls(text), bold=True)
