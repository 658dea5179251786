"""Running studies: the trials of all models together, generation by generation."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from evalplugin.base.fingerprint import digest
from evalplugin.base.units import count_text
from evalplugin.config.tuning import values_text
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import Job, TaskExecutor
from evalplugin.execution.store.steps import StepCache
from evalplugin.execution.tasks import Task, TaskFailure, TaskResult
from evalplugin.features.tuning.study import Study, Trial
from evalplugin.features.tuning.summary import tuning_of

__all__ = ["run_studies"]


def run_studies(
    studies: Sequence[Study],
    jobs: Sequence[Job],
    execute: TaskExecutor,
    cache: StepCache,
    observer: Observer,
) -> list[Job]:
    """Return the jobs, those of tuned models with the best parameters of each fold, and how these were found.

    Where all trials of a fold have failed, the job has failed as the defaults did.

    Args:
        studies: Those of ``studies_of`` on these jobs.
        jobs: The jobs of the bake-off.
        execute: Executes the trials that are not cached.
        cache: Has the trials of before, and stores new ones.
        observer: Receives progress, and a line on each study.
    """
    if not studies:
        return list(jobs)
    progress = _Progress(studies)
    with observer.overall(progress.label, progress.total, progress.seconds_left) as advance:
        while asked := [(study, trial) for study in studies for trial in study.ask()]:
            _evaluate(asked, execute, cache, progress, advance)
            for study in dict.fromkeys(study for study, _ in asked):
                study.tell([trial for one, trial in asked if one is study])
                progress.note_best(study)
            advance(progress.advance())
    for study in studies:
        observer.report(_line(study))
    return [
        _tuned(job, [study for study in studies if study.job == number]) for number, job in enumerate(jobs)
    ]


def _evaluate(
    asked: Sequence[tuple[Study, Trial]],
    execute: TaskExecutor,
    cache: StepCache,
    progress: _Progress,
    advance: Callable[[int], None],
) -> None:
    """Give each trial its outcome."""
    missing: list[tuple[Study, Trial, Task]] = []
    for study, trial in asked:
        lists = cache.lists(trial.task)
        cached: TaskResult | TaskFailure | None = None if lists is None else cache.scored(trial.task, lists)
        if cached is None and lists is None:
            cached = _failed_before(study, trial, cache)
        if cached is not None:
            trial.outcome = study.outcome_of(cached, cached=True)
        else:
            missing.append((study, trial, replace(trial.task, lists=lists)))
    advance(progress.advance())
    if not missing:
        return
    progress.note_start()
    tasks = (
        (n, f"{study.label}, trial {trial.number + 1}", task)
        for n, (study, trial, task) in enumerate(missing)
    )
    with closing(execute(tasks)) as results:
        for number, result in results:
            study, trial, task = missing[number]
            if isinstance(result, TaskResult):
                result = cache.store_result(task, result)
            else:
                result = cache.store_failure(_name(study, trial), task, result)
            trial.outcome = study.outcome_of(result, cached=False)
            progress.computed += 1
            advance(progress.advance())


def _failed_before(study: Study, trial: Trial, cache: StepCache) -> TaskFailure | None:
    """Return the failure of a trial in a bake-off that is continued, unless something that it has read has changed."""
    name = _name(study, trial)
    if cache.journal is None or (failure := cache.journal.failures.get(name)) is None:
        return None
    return failure if cache.changed(name, trial.task, cache.journal) is None else None


def _name(study: Study, trial: Trial) -> str:
    """Return the name of a trial in the journal, which no task of the bake-off has."""
    return f"{study.name}/tune/{digest(trial.task.model.params)}"


def _line(study: Study) -> str:
    """Return a line on the end of a study."""
    cached = sum(trial.outcome is not None and trial.outcome.cached for trial in study.trials)
    stored = f", {cached} of them from the store" if cached else ""
    trials = f"{count_text(len(study.trials), 'trial')}{stored}"
    if (best := study.best) is None or best.outcome is None:
        return f"tuned {study.label}: all of {trials} failed"
    value = f"{study.plan.metric.name} {best.outcome.value:.4g} on validation data"
    defaults = ""
    if best.number == 0:
        is_outside = study.space.told(best.values) is None
        defaults = f" (the defaults{', outside of the search space' * is_outside})"
    found = f"{values_text(best.values)}{defaults}"
    return f"tuned {study.label}: {found}, {value}, trial {best.number + 1} of {trials}"


@dataclass
class _Progress:
    """The progress of all studies: trials done, the latest best value, an estimate of the time left."""

    studies: Sequence[Study]
    computed: int = 0  # trials that were not cached
    _best: dict[int, Trial] = field(default_factory=dict)  # by identity of the study
    _latest: str = ""
    _shown: int = 0  # trials that the observer knows of
    _started: float | None = None  # when the first trial was that is not cached, on the monotonic clock

    def label(self) -> str:
        models = count_text(len({study.job for study in self.studies}), "model")
        return f"tune {models}{self._latest}"

    @property
    def total(self) -> int | None:
        trials = self.studies[0].plan.budget.trials
        return None if trials is None else trials * len(self.studies)

    def note_start(self) -> None:
        """Note that trials are computed from now on."""
        if self._started is None:
            self._started = time.monotonic()

    def note_best(self, study: Study) -> None:
        """Note the best trial of a study, if it is another one now."""
        best = study.best
        if best is not None and best.outcome is not None and self._best.get(id(study)) is not best:
            self._best[id(study)] = best
            metric = study.plan.metric.name
            self._latest = f", the latest gain: {study.label}, {metric} {best.outcome.value:.4g}"

    def advance(self) -> int:
        """Return how many trials are done since the last call."""
        before, self._shown = self._shown, sum(map(_done, self.studies))
        return self._shown - before

    def seconds_left(self) -> float | None:
        """Return the estimated seconds until all studies have ended; None as long as nothing is known."""
        if self._started is None or not self.computed:
            return None
        seconds_each = (time.monotonic() - self._started) / self.computed
        return seconds_each * sum(map(_left, self.studies))


def _told(study: Study) -> int:
    return sum(trial.outcome is not None for trial in study.trials)


def _done(study: Study) -> int:
    """Return how many trials are done; those that are left when a study ends early count as done."""
    told = _told(study)
    return max(told, study.plan.budget.trials or 0) if study.ended and told == len(study.trials) else told


def _left(study: Study) -> float:
    """Return the estimated number of trials that a study still needs."""
    budget, told = study.plan.budget, _told(study)
    if study.ended and told == len(study.trials):
        return 0.0
    limits = [] if budget.trials is None else [float(budget.trials - told)]
    if budget.seconds is not None and study.spent:
        limits.append(max(0.0, budget.seconds / study.spent - 1.0) * told)
    return min(limits, default=0.0)


def _tuned(job: Job, studies: Sequence[Study]) -> Job:
    """Return a job with the parameters that its studies have found."""
    if not studies:
        return job
    best = [study.best for study in studies]
    failed = {
        study.fold: outcome.failure
        for study, found in zip(studies, best, strict=True)
        if found is None and (outcome := study.trials[0].outcome) is not None and outcome.failure is not None
    }
    if failed:
        return replace(job, done=dict(failed))
    recipes = [replace(job.model, params=trial.task.model.params) for trial in best if trial is not None]
    # Tuned once, with the first seed: the others repeat the fit of what it has found.
    tasks = tuple(
        replace(task, model=recipe) for task, recipe in zip(job.tasks, recipes * job.seeds, strict=True)
    )
    return replace(job, model=recipes[-1], tasks=tasks, tuning=tuning_of(studies))
