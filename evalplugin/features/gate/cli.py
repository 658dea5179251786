"""The command ``gate``: a promotion decision on logged models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from evalplugin.cli import options
from evalplugin.cli.shared import echo_data

_HELP = """Decide on logged models: is a challenger to take the champion's place?

RUN is the id or the name of a run, or the name of a model. Without any: the latest bake-off. Nothing is fitted and
nothing is registered. The decision is logged on the bake-off's summary run: tags, decision.md and decision.json. What
was decided there before is not replaced: a further decision goes to a run of its own, with the role decision.

\b
The outcome is one of
  promote      a challenger passed every condition
  keep         none passed, and none can be better by more than min_gain, or it fails a guardrail: the champion stays
  cannot tell  none passed, but one may be better by more than min_gain: too few users to find out; the champion stays
  refuse       nothing could be judged: the champion failed, too few users, no challenger, all decisions taken

\b
Exit codes:
  0  the outcome is none to fail on
  1  it is one: with --fail-on refuse a refusal, with keep also keep and cannot tell, with never none
  2  runs, champion or options that are not there or do not fit together
"""


@options.command(help=_HELP)
@options.runs
@options.bakeoff
@options.source_experiment
@options.tracking_uri
@click.option(
    "--config", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Take the gate of this config, which must be right as a whole, and without RUN the latest bake-off of its "
    "experiment; the options below win over it.",
)  # fmt: skip
@click.option(
    "--champion", metavar="MODEL",
    help="Who is to be beaten: a model, a run by id or name, or a registered model as NAME@ALIAS; else the gate's, or "
    "the baseline.",
)  # fmt: skip
@click.option(
    "--challenger", "challengers", metavar="MODEL", multiple=True,
    help="Who may be promoted, several times; else all but the champion.",
)  # fmt: skip
@click.option("--metric", metavar="NAME", help="What decides; else the bake-off's primary metric.")
@click.option("--dataset", metavar="NAME", help="Where it is decided, if there are several.")
@click.option("--split", metavar="NAME", help="Where it is decided, if there are several.")
@click.option(
    "--min-gain", metavar="AMOUNT", help='Such as 0.002, or "1 %" of the champion\'s mean.  [default: 0]'
)
@click.option("--confidence", type=float, help="One-sided, all challengers together.  [default: 0.95]")
@click.option(
    "--decisions", type=int,
    help="Over how many decisions the confidence holds; those taken are counted in the experiment.  [default: 1 each]",
)  # fmt: skip
@click.option("--min-users", type=int, help="Fewer are no evidence.  [default: 500]")
@options.intersect
@click.option(
    "--fail-on", type=click.Choice(["keep", "refuse", "never"]),
    help="When the exit code is 1; see above.  [default: refuse]",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Decide and show, and log nothing.")
@options.shown("table", "json", "markdown")
@options.set_value
@options.plugin
@options.debug
def gate(
    runs: tuple[str, ...],
    bakeoff: str | None,
    experiment: str | None,
    tracking_uri: str | None,
    config: Path | None,
    overrides: tuple[str, ...],
    challengers: tuple[str, ...],
    min_gain: str | None,
    intersect: bool,
    dry_run: bool,
    shown: str,
    **options: Any,
) -> int:
    """Decide on logged models, show the decision, log it; return its exit code."""
    from evalplugin.cli import show
    from evalplugin.cli.show.console import show_statement
    from evalplugin.features.gate.logged import decide_logged, gate_of, log_decision
    from evalplugin.features.gate.report import decision_markdown, decision_statement

    if overrides and config is None:
        raise click.UsageError("--set sets a value of the config: give it with --config")
    given = {**options, "challengers": list(challengers) or None, "min_gain": _amount(min_gain)}
    spec, register, config_uri, config_experiment = gate_of(config, overrides, given)
    uri = tracking_uri or config_uri
    if config_experiment is not None and not (runs or bakeoff or experiment):
        bakeoff, experiment = "latest", config_experiment
    observer = show.observer()
    with observer.progress("read the runs and decide"):
        decision, run_ids = decide_logged(
            spec, register, runs=runs, bakeoff=bakeoff, experiment=experiment, tracking_uri=uri, intersect=intersect,
            counted=not dry_run,
        )  # fmt: skip
    if shown == "json":
        echo_data(decision.to_json())
    elif shown == "markdown":
        echo_data(decision_markdown(decision), nl=False)
    else:
        show_statement(decision_statement(decision))
    if not dry_run and run_ids:
        with observer.progress("log the decision"):
            message = log_decision(uri, decision, run_ids)
        observer.report(message)
    return decision.exit_code(spec.fail_on)


def _amount(text: str | None) -> float | str | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


COMMAND = gate
