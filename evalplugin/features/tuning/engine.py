"""Running studies: the trials of all models together, generation by generation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from evalplugin.base.costs import cheap_collections
from evalplugin.base.fingerprint import digest
from evalplugin.base.units import count_text
from evalplugin.config.spaces import values_text
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import Job, Result, TaskExecutor, stored
from evalplugin.execution.store.steps import StepCache
from evalplugin.execution.tasks import Task
from evalplugin.features.tuning.study import Study, Trial
from evalplugin.features.tuning.summary import tuning_of


def run_studies(
    studies: Sequence[Study],
    jobs: Sequence[Job],
    execute: TaskExecutor,
    cache: StepCache,
    observer: Observer,
) -> list[Job]:
    """Return the jobs; jobs of tuned models get the best parameters of each fold, and a summary of their studies.

    Where all trials of a fold have failed, the job has failed as the defaults did.

    Args:
        studies: From ``studies_of`` on these jobs.
        jobs: The jobs of the bake-off.
        execute: Executes the trials that are not cached.
        cache: Has earlier trials, and stores new ones.
        observer: Receives progress, and a line on each study.
    """
    if not studies:
        return list(jobs)
    progress = _Progress(studies)
    # Each generation is executed by itself, which would collect all objects of the libraries each time.
    with cheap_collections(), observer.progress(progress.label, progress.total) as progress.advance:
        while asked := [(study, trials) for study in studies if (trials := study.ask())]:
            _evaluate(
                [(study, trial) for study, trials in asked for trial in trials], execute, cache, progress
            )
            for study, trials in asked:
                study.tell(trials)
                if (best := study.best) is not None and best in trials:
                    value = f"{study.plan.metric.name} {best.value:.4g}"
                    progress.latest = f", the latest gain: {study.label}, {value}"
            progress.show()
    for study in studies:
        observer.report(_line(study))
    return [
        _tuned(job, [study for study in studies if study.job == number]) for number, job in enumerate(jobs)
    ]


def _evaluate(
    asked: Sequence[tuple[Study, Trial]], execute: TaskExecutor, cache: StepCache, progress: _Progress
) -> None:
    """Run the trials that are not cached, and end all of them."""
    missing: list[tuple[Study, Trial, Task]] = []
    for study, trial in asked:
        lists = cache.lists(trial.task)
        cached: Result | None = None if lists is None else cache.scored(trial.task, lists)
        if lists is None and cache.journal is not None:
            cached = cache.journal.failures.get(_name(study, trial))
        if cached is not None:
            study.end(trial, cached, cached=True)
        else:
            missing.append((study, trial, replace(trial.task, lists=lists)))
    progress.show()
    if not missing:
        return
    tasks = (
        (n, f"{study.label}, trial {trial.number + 1}", task)
        for n, (study, trial, task) in enumerate(missing)
    )
    with closing(execute(tasks)) as results:
        for number, result in results:
            study, trial, task = missing[number]
            result = stored(cache, _name(study, trial), task, result)
            study.end(trial, result, cached=False)
            progress.show()


def _name(study: Study, trial: Trial) -> str:
    """Return the name of a trial in the journal, which no task of the bake-off has."""
    return f"{study.name}/tune/{digest(trial.task.model.params)}"


def _line(study: Study) -> str:
    """Return a line on the end of a study."""
    cached = sum(trial.cached for trial in study.told)
    stored = f", {cached} of them from the store" if cached else ""
    trials = f"{count_text(len(study.trials), 'trial')}{stored}"
    if (best := study.best) is None:
        return f"tuned {study.label}: all of {trials} failed"
    value = f"{study.plan.metric.name} {best.value:.4g} on validation data"
    defaults = ""
    if best.number == 0:
        is_outside = study.space.told(best.values) is None
        defaults = f" (the defaults{', outside of the search space' * is_outside})"
    chosen = f"{values_text(best.values)}{defaults}"
    return f"tuned {study.label}: {chosen}, {value}, trial {best.number + 1} of {trials}"


@dataclass
class _Progress:
    """The progress of all studies: trials done, the latest best value."""

    studies: Sequence[Study]
    advance: Callable[[int], None] = lambda done: None  # receives how many more trials are done
    latest: str = ""  # the last study whose best value has changed, and that value
    _shown: int = 0  # trials that the observer knows of

    def label(self) -> str:
        models = count_text(len({study.job for study in self.studies}), "model")
        return f"tune {models}{self.latest}"

    @property
    def total(self) -> int | None:
        trials = self.studies[0].plan.budget.trials
        return None if trials is None else trials * len(self.studies)

    def show(self) -> None:
        """Tell the observer how many trials are done since the last call."""
        before, self._shown = self._shown, sum(map(_done, self.studies))
        self.advance(self._shown - before)


def _done(study: Study) -> int:
    """Return how many trials are done; trials that are left when a study ends early count as done."""
    told = len(study.told)
    return max(told, study.plan.budget.trials or 0) if study.ended and told == len(study.trials) else told


def _tuned(job: Job, studies: Sequence[Study]) -> Job:
    """Return a job with the best parameters of each of its studies."""
    if not studies:
        return job
    failed: dict[int, Result] = {}
    recipes = []
    for study in studies:
        if (best := study.best) is not None:
            recipes.append(replace(job.model, params=best.task.model.params))
        elif (failure := study.trials[0].failure) is not None:
            failed[study.fold] = failure
    if failed:
        return replace(job, done=failed)
    # Tuned once, with the first seed: the other seeds repeat the fit with the same parameters.
    tasks = [replace(task, model=recipe) for task, recipe in zip(job.tasks, recipes * job.seeds, strict=True)]
    return replace(job, model=recipes[-1], tasks=tasks, tuning=tuning_of(studies))
