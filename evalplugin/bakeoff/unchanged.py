"""Skipping a bake-off whose data, config and code are those of the last one that finished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evalplugin.base.errors import DataError, Problem, TrackingError, UnchangedError
from evalplugin.base.fingerprint import fingerprint
from evalplugin.base.inputs import CHANGED, PROGRAM, Inputs, changed_input, folder_size, scheme_of
from evalplugin.base.units import count_text, size_text
from evalplugin.config import CheckedConfig
from evalplugin.config.inputs import declared_inputs, inputs_of_model, stored_uris
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import Job
from evalplugin.execution.store.steps import StepCache
from evalplugin.execution.store.versions import source_of, unrecorded_readers
from evalplugin.models import MODELS
from evalplugin.report.decision import outcome_words
from evalplugin.tracking.connection import is_missing, tracking_call
from evalplugin.tracking.read.past import last_finished
from evalplugin.tracking.read.uris import stored_version

__all__ = ["check_declared", "check_stored", "inputs_of", "named_inputs", "raise_if_unchanged"]


def inputs_of(config: CheckedConfig, fingerprints: Mapping[str, str]) -> dict[str, str]:
    """Return hashes of the config, the data and the code of a bake-off; each is logged with its runs.

    ``fingerprints`` are those of ``resuming.fingerprints_of``: of the whole content of the data, and of the versions of
    evalplugin, its libraries and plugin files.
    """
    deciding = config.deciding("scores", "comparison", "groups", "decision")
    return {"config": fingerprint(deciding), "data": fingerprints["data"], "code": fingerprints["code"]}


def named_inputs(jobs: Sequence[Job]) -> list[str]:
    """Return the names of the inputs that the models' parameters name and that the config declares."""
    return list(dict.fromkeys(name for job in jobs for task in job.tasks for name in task.inputs))


def check_declared(config: CheckedConfig, cache: StepCache, observer: Observer) -> None:
    """Look up declared inputs, and refuse those of which it cannot be known whether they have changed.

    A program without a version is none of these: it is run again. Of folders it is reported how much is compared. A
    plugin that uses a reader whose files cannot be recorded is a warning, if one of its models names no inputs.

    Raises:
        DataError: There is one.
    """
    for model in config.models:
        try:
            names = list(declared_inputs(model, config.folder))
            cache.declare([name for name in names if scheme_of(name) != PROGRAM])
        except DataError as error:
            raise DataError(f"inputs of the model {model.name}: {error}") from None
        for name in names:
            if name.endswith("/") and scheme_of(name) is None:
                files, size = folder_size(name)
                cache.store.report(
                    f"{model.name} depends on {count_text(files, 'file')} ({size_text(size)}) in {name}"
                )
    _warn_of_readers(config, observer)


def _warn_of_readers(config: CheckedConfig, observer: Observer) -> None:
    entries = [MODELS.entry(m.type) for m in config.models if not any(inputs_of_model(m, config.folder))]
    for file in dict.fromkeys(source_of(entry) for entry in entries if not entry.is_own):
        if file is not None and (readers := unrecorded_readers(file)):
            observer.warn(
                f"{file} uses {', '.join(readers)}: files that are read with it cannot be recorded, and a change "
                f"of them would not be noticed; name them under inputs: of the model"
            )


def check_stored(config: CheckedConfig, tracking_uri: str) -> None:
    """Look up what models read from the tracking store of the bake-off.

    Raises:
        ConfigError: Something is not there; with its place in the config.
        TrackingError: The store cannot be reached.
    """
    problems = []
    for model in config.models:
        for parameter, uri in stored_uris(model).items():
            try:
                stored_version(uri, tracking_uri)
            except (DataError, TrackingError) as error:
                if isinstance(error, TrackingError) and not is_missing(error):
                    raise
                path = (*model.path, "params", parameter) if model.path else ()
                problems.append(Problem(path, str(error)))
    if problems:
        raise config.document.error(problems)


def raise_if_unchanged(
    uri: str,
    experiment: str,
    inputs: Mapping[str, str],
    named: Inputs,
    champion: str | None,
    observer: Observer,
) -> None:
    """Raise if the results would be those of the last finished bake-off of this config.

    A bake-off with a failed model does not count: it may be run again.

    Args:
        uri, experiment: Where it is looked for.
        inputs: Hashes of config, data and code.
        named: Fingerprints of the inputs that the config names.
        champion: The model that is the champion now, where there is a gate.
        observer: Receives the name of a file or other input that has changed.

    Raises:
        UnchangedError: Config, data and code are the same; the message has the time of that bake-off.
        TrackingError: The store cannot be reached.
    """
    last = last_finished(uri, experiment, inputs["config"])
    if last is None or last.mapping("inputs") != dict(inputs):
        return
    with tracking_call(uri, "read the inputs of the last bake-off"):
        recorded = last.recorded_inputs
    if (name := changed_input(recorded, named)) is not None:
        if named.get(name) != CHANGED:  # else it has been reported that this cannot be known
            observer.report(f"{name} has changed since the bake-off {last.bakeoff}")
        return
    left = (last.tag("promoted") if last.tag("registered") else "") or last.tag("champion")
    if champion is not None and champion != left:
        observer.report(f"the champion is {champion} now; after the bake-off {last.bakeoff} it was {left}")
        return
    outcome = last.tag("outcome")
    decided = f", decision: {outcome_words(outcome)}" if outcome else ""
    raise UnchangedError(
        f"nothing to do: data, config and code are those of the bake-off {last.bakeoff} "
        f"({last.ended:%Y-%m-%d %H:%M} UTC{decided})",
        bakeoff=last.bakeoff,
    )
