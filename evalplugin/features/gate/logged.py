"""Gate decisions on logged models: runs read from MLflow, the champion among them, the decision, and its log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from evalplugin.base.errors import ConfigError, DataError, Problem, TrackingError
from evalplugin.comparison.contest import Contest, with_choice, with_common_users
from evalplugin.components.parameters import problems_of
from evalplugin.features.config import load
from evalplugin.features.gate.champion import recipe_of_registered, recipe_of_run
from evalplugin.features.gate.decide import (
    check_challengers,
    choose_contest,
    decide,
    gate_without_champion,
    no_champion_note,
)
from evalplugin.features.gate.decision import Decision
from evalplugin.features.gate.ledger import Ledger
from evalplugin.features.gate.report import decision_files, decision_tags
from evalplugin.features.gate.schema import ChampionSpec, Gate, Register, is_registered
from evalplugin.features.gate.section import champion_of
from evalplugin.report.competition import competition_of
from evalplugin.tracking.connection import existing_store, tracking_call
from evalplugin.tracking.read.contests import read_contests
from evalplugin.tracking.read.logged import LoggedRun
from evalplugin.tracking.read.runs import bakeoff_of, find_runs, search_runs, summary_filter
from evalplugin.tracking.write.items import Datum, Tag
from evalplugin.tracking.write.writer import RunWriter

if TYPE_CHECKING:
    from mlflow import MlflowClient


def gate_of(
    config: Path | None, overrides: Sequence[str], options: Mapping[str, Any]
) -> tuple[Gate, Register | None, str | None, str | None]:
    """Return the gate of a config, or an empty one, in which options that are not None win.

    With it come the config's register section, tracking URI and experiment, if any.

    Raises:
        ConfigError: Every mistake of the config, or of the options.
    """
    gate, register, uri, experiment = Gate(), None, None, None
    if config is not None:
        loaded = load(config, overrides=overrides)
        gate, register = loaded.section("gate"), loaded.section("register")
        uri, experiment = loaded.spec.tracking.uri, loaded.spec.experiment
        if gate is None:
            raise ConfigError([f"{config}: has no gate"])
    given = {key: value for key, value in options.items() if value is not None}
    values = {**gate.model_dump(), **given}
    try:
        return Gate.model_validate(values), register, uri, experiment
    except ValidationError as error:
        problems = problems_of(error, Gate, values, noun="key")
        raise ConfigError([_of_option(problem) for problem in problems]) from None


def decide_logged(
    gate: Gate,
    register: Register | None = None,
    *,
    runs: Sequence[str] = (),
    bakeoff: str | None = None,
    experiment: str | None = None,
    tracking_uri: str | None = None,
    intersect: bool = False,
    counted: bool = True,
) -> tuple[Decision, tuple[str, ...]]:
    """Return the decision of a gate on logged models, and the ids of the challengers' runs.

    The champion is one of these models, or another run on the same data. For a registered one, which may be named by
    name@alias, it is the model of the same type and parameters; as long as none is registered, the baseline. Where
    none is named, it is the baseline.

    Args:
        gate: The conditions.
        register: The config's section, if any.
        runs, bakeoff, experiment, tracking_uri, intersect: The runs to read, as in ``read_contests``.
        counted: Whether the decision spends one of ``gate.decisions``.

    Raises:
        DataError: No such run or bake-off, runs that cannot be compared, or no such champion.
        TrackingError: The store cannot be reached, or a run lacks logged files.
    """
    read = partial(read_contests, tracking_uri, intersect=intersect)
    contest = choose_contest(read(bakeoff=bakeoff, runs=runs, experiment=experiment), gate)
    if competition_of(contest) is None:
        raise DataError(
            f"{contest.name}: a gate decides on models of a config, and these are scores of a table"
        )
    champion = champion_of(gate, register, contest.baseline)
    if champion is None:
        raise DataError("the runs have no baseline to stand for a champion: name one with --champion MODEL")
    models = {c.model for c in contest.models}
    if isinstance(champion, str) and champion not in models and is_registered(champion):
        champion = ChampionSpec(registry=champion)
    if isinstance(champion, ChampionSpec) and champion.registry is not None:
        name, gate, note = _registered(contest, gate, champion.registry, tracking_uri)
    elif isinstance(champion, str) and champion in models:
        name, note = champion, None
    else:
        run = champion if isinstance(champion, str) else champion.run
        assert run is not None
        contest, name = _with_run(contest, run, tracking_uri, read)
        note = f"the champion is the run {run}, here called {name}"
    check_challengers(gate, name)
    contest = with_common_users(contest)  # of those that pass, the largest gain wins
    if gate.metric is not None:
        contest = with_choice(contest, primary=gate.metric)
    named = [c for c in contest.models if c.model != name and c.model in (gate.challengers or {c.model})]
    run_ids = tuple(c.run_id for c in named or contest.models if c.run_id is not None)
    by_budget = partial(decide, contest, gate, name, [*contest.notes, *([note] if note else [])])
    if gate.decisions is None or not run_ids:
        return by_budget(), run_ids
    ledger = Ledger.beside(tracking_uri, run_ids, contest.place)
    if not counted:
        return by_budget(ledger.budget(gate.decisions)), run_ids
    return ledger.decide(gate.decisions, by_budget), run_ids


def _registered(
    contest: Contest, gate: Gate, champion: str, tracking_uri: str | None
) -> tuple[str, Gate, str]:
    """Return the model of the contest that is the registered one, the gate for the others, and a note on it."""
    recipe = recipe_of_registered(tracking_uri, champion)
    if recipe is None:
        if contest.baseline is None:
            raise DataError(f"there is no {champion} in the registry yet, and no baseline to stand for it")
        return contest.baseline, gate_without_champion(gate), no_champion_note(champion, contest.baseline)
    for model in contest.models:
        assert model.run_id is not None
        other = recipe_of_run(tracking_uri, model.run_id)
        if other.type == recipe.type and dict(other.params) == dict(recipe.params):
            return model.model, gate, f"the champion is {model.model}, as {recipe.origin}"
    models = ", ".join(model.model for model in contest.models)
    raise DataError(
        f"the champion ({recipe.origin}) is not among the models of {contest.name}: {models}; a bake-off whose config "
        f"has this gate fits it anew"
    )


def _with_run(
    contest: Contest, run: str, tracking_uri: str | None, read: Callable[..., Sequence[Contest]]
) -> tuple[Contest, str]:
    """Return the contest with a run among its models, and the name of its model; ``read`` reads it with others."""
    ours, theirs = [c.run_id for c in contest.models if c.run_id is not None], ids_of(tracking_uri, run)
    contests: Sequence[Contest] = [contest]
    if not set(theirs) & set(ours):
        contests = read(runs=[*ours, *theirs], primary=contest.primary)
    for joined in contests:
        models = {c.run_id: c.model for c in joined.models}
        names = [model for run_id, model in models.items() if run_id in theirs]
        if names and set(ours) <= models.keys():
            return joined, names[0]
    raise DataError(
        f"the champion {run} was not scored on the data of {contest.dataset}: they cannot be compared"
    )


def _of_option(problem: Problem) -> str:
    key = str(problem.path[0]).replace("_", "-") if problem.path else ""
    return f"--{key}: {problem.message}"


def log_decision(tracking_uri: str | None, decision: Decision, run_ids: Sequence[str]) -> str:
    """Log a decision on logged models and return a message with the run that has it.

    It is the summary run of their bake-off; or a new run with the role ``decision`` beside them, where they are of
    several bake-offs, where there is no summary, or where that has another decision, which may have registered a model.

    Raises:
        TrackingError: The store cannot be reached or refuses.
    """
    with existing_store(tracking_uri, "log the decision") as client:
        runs = [LoggedRun(client, client.get_run(run_id)) for run_id in run_ids]
        writer, summary = RunWriter(client, runs[0].experiment_id), _summary_of(client, runs)
        if summary is not None and not summary.tag("outcome"):
            _log(writer, summary.id, decision)
            return _logged_on(summary.id)
        tags: list[Tag | Datum] = [
            Tag("evalplugin.role", "decision"),
            Datum("decided_bakeoff", bakeoff_of(runs)),
        ]
        run_id = writer.start(f"decision {decision.contest}", tags)
        try:
            _log(writer, run_id, decision)
        except BaseException:
            with suppress(TrackingError), tracking_call(client.tracking_uri, "end the run of the decision"):
                writer.end(run_id, "FAILED")
            raise
        writer.end(run_id, "FINISHED")
    note = "" if summary is None else f"; the summary run {summary.id} keeps the decision that it has"
    return _logged_on(run_id) + note


def ids_of(tracking_uri: str | None, run: str) -> tuple[str, ...]:
    """Return the ids of the runs that an id, a run's name or a model's name stands for: one a dataset and split.

    Raises:
        DataError: There is none.
        TrackingError: The store cannot be reached.
    """
    with existing_store(tracking_uri, f"find the run {run}") as client:
        return tuple(logged.id for logged in find_runs(client, runs=[run]).runs)


def _log(writer: RunWriter, run_id: str, decision: Decision) -> None:
    writer.log(run_id, decision_files(decision))
    writer.log(run_id, decision_tags(decision))  # last: a run with these tags has a decision


def _logged_on(run_id: str) -> str:
    return f"logged on the run {run_id}: decision.md, decision.json"


def _summary_of(client: MlflowClient, runs: Sequence[LoggedRun]) -> LoggedRun | None:
    bakeoffs = {(run.experiment_id, run.bakeoff) for run in runs}
    if len(bakeoffs) > 1:
        return None
    ((experiment, bakeoff),) = bakeoffs
    return next(iter(search_runs(client, [experiment], summary_filter(bakeoff), limit=1)), None)
