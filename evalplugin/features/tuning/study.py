"""A study: the trials of one model on one fold, chosen by Optuna within a budget."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, Literal

import numpy as np

from evalplugin.base.arrays import Floats
from evalplugin.base.errors import EvalpluginError
from evalplugin.base.libraries import optuna
from evalplugin.base.seeding import generator
from evalplugin.components.parameters import as_mapping
from evalplugin.config.components import params_at
from evalplugin.execution.isolation import TaskFailure
from evalplugin.execution.race import Race
from evalplugin.execution.results import Costs
from evalplugin.execution.tasks import Task, TaskResult
from evalplugin.features.tuning.section import TuningPlan
from evalplugin.features.tuning.space import SearchSpace, quiet
from evalplugin.models import MODELS

GENERATION = 4  # trials that are asked for before the first is told, whatever the number of workers
_BARREN = 5  # generations of failures, after which a study ends
_DRAWS = 100  # random points, after which the untried ones are searched for in order


@dataclass(eq=False)
class Trial:
    """One choice of parameters, evaluated on the validation data."""

    number: int  # from 0; the first has the defaults
    values: Mapping[str, Any]  # of the tuned parameters
    task: Task
    asked: optuna.Trial | None  # None: the defaults, which Optuna has not suggested
    state: Literal["open", "done", "dropped", "failed"] = "open"
    value: float = math.nan  # mean of the metric over the users seen; NaN: it is open, or failed
    users: int = 0  # seen
    costs: Costs = field(default_factory=Costs)  # its seconds count in the budget
    # Of every user, for a race; None where some have no score.
    scores: Floats | None = field(default=None, repr=False)
    cached: bool = False  # whether nothing was computed for it
    failure: TaskFailure | None = None


@dataclass(eq=False)
class Study:
    """The trials of one model on one fold.

    They are asked for in generations; all of a generation are told in order before the next is asked for. So a study
    depends on the seed, the train data and the budget alone, and is the same when it is repeated from cached results.
    """

    job: int  # number of the job
    fold: int
    label: str  # the model's name, and the fold where there are several
    base: Task  # with the defaults, on the validation data
    space: SearchSpace
    plan: TuningPlan
    settings: Mapping[str, Any]  # the plan as plain values, with the split of this study
    trials: list[Trial] = field(default_factory=list)
    name: str = ""  # unique within the bake-off
    is_exhausted: bool = False  # whether every point of the search space has been tried
    _barren: int = 0
    _study: optuna.Study = field(init=False, repr=False)
    _random: optuna.Study = field(init=False, repr=False)  # draws points in place of points that were tried

    def __post_init__(self) -> None:
        task = self.base
        params = json.dumps(task.model.params, sort_keys=True)
        seed = int(generator(task.seed, *task.stream, "study", task.model.type, params).integers(2**32))
        with quiet():
            self._study = optuna.create_study(
                direction="maximize" if self.plan.metric.direction > 0 else "minimize",
                sampler=optuna.samplers.TPESampler(seed=seed),
                pruner=optuna.pruners.NopPruner(),
            )
            self._random = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))

    @cached_property
    def n_users(self) -> int:
        """The number of users with validation data."""
        return len(self.base.split.test.active_users)

    @property
    def told(self) -> list[Trial]:
        """The trials that have ended."""
        return [trial for trial in self.trials if trial.state != "open"]

    @property
    def spent(self) -> float:
        """The seconds that the trials have cost."""
        return sum(trial.costs.seconds for trial in self.trials)

    @property
    def ended(self) -> bool:
        """Whether the budget is spent, all points have been tried, or new trials only fail."""
        budget = self.plan.budget
        return (
            (budget.trials is not None and len(self.trials) >= budget.trials)
            or (budget.seconds is not None and self.spent >= budget.seconds)
            or self.is_exhausted
            or self.only_fails
        )

    @property
    def only_fails(self) -> bool:
        """Whether all trials of the last generations failed."""
        return self._barren >= _BARREN

    @property
    def best(self) -> Trial | None:
        """The incumbent: the trial with the best value on all users, of equal ones the first."""
        done = [trial for trial in self.trials if trial.state == "done"]
        return max(done, key=lambda trial: self.plan.metric.direction * trial.value, default=None)

    def ask(self) -> list[Trial]:
        """Return the trials of the next generation; an empty list when the study has ended."""
        if self.ended:
            return []
        budget, race = self.plan.budget.trials, self._race()
        size = GENERATION if budget is None else min(GENERATION, budget - len(self.trials))
        first = len(self.trials)
        for number in range(first, first + size):
            if number == 0:
                self.trials.append(Trial(0, self.defaults, replace(self.base, race=race), None))
                continue
            with quiet():
                asked = self._ask()
            if asked is None:
                self.is_exhausted = True
                break
            values = self.space.suggest(asked)
            model = replace(self.base.model, params=self._params_of(values))
            self.trials.append(Trial(number, values, replace(self.base, model=model, race=race), asked))
        return self.trials[first:]

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The values of the first trial, which need not be in the search space."""
        return self.space.defaults(self.base.model.params)

    def _ask(self) -> optuna.Trial | None:
        """Return Optuna's next trial, at a random point where its own has been tried; None if all points have been."""
        tried = {_text(trial.task.model.params) for trial in self.trials}

        def is_new(values: Mapping[str, Any]) -> bool:
            return _text(self._params_of(values)) not in tried

        asked = self._study.ask()
        if is_new(self.space.suggest(asked)):
            return asked
        self._study.tell(asked, state=optuna.trial.TrialState.FAIL)
        drawn = (self.space.suggest(self._random.ask()) for _ in range(_DRAWS))
        values = next(filter(is_new, chain(drawn, self.space.points())), None)
        if values is None:
            return None
        in_optuna = self.space.told(values)
        assert in_optuna is not None
        self._study.enqueue_trial(in_optuna[0])
        return self._study.ask()

    def tell(self, trials: list[Trial]) -> None:
        """Tell Optuna the outcomes of a generation."""
        for trial in trials:
            self._tell(trial)
        succeeded = any(trial.state != "failed" for trial in trials)
        self._barren = 0 if succeeded else self._barren + 1

    def end(self, trial: Trial, result: TaskResult | TaskFailure, *, cached: bool) -> None:
        """End a trial with the result of its task; ``cached``: whether nothing was computed."""
        trial.cached = cached
        if isinstance(result, TaskFailure):
            trial.state, trial.failure = "failed", result
            return
        name, scores = self.plan.metric.name, result.per_user
        value, users, trial.costs = scores.means[name], len(scores.users), result.costs
        if np.isnan(value):
            text = f"{name} is undefined for all {users:,} {scores.units.nouns} of the validation data"
            trial.state, trial.failure = "failed", TaskFailure(text)
            return
        trial.value, trial.users = value, users
        trial.state = "done" if users == self.n_users else "dropped"
        if trial.state == "done" and name in scores.metrics:
            trial.scores = scores.column(name)

    def _params_of(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return all parameters as the model has them; as chosen where it refuses them, so that the trial fails."""
        params = params_at(self.base.model.params, values)
        with suppress(EvalpluginError):
            params = as_mapping(MODELS.create(self.base.model.type, params))
        return params

    def _race(self) -> Race | None:
        best = self.best
        if self.plan.prune != "race" or best is None or best.scores is None:
            return None
        users = self.base.split.test.active_users
        order = generator(self.base.seed, *self.base.stream, "race").permutation(len(users))
        return Race(users[order], best.scores[order], self.plan.metric.direction > 0)

    def _tell(self, trial: Trial) -> None:
        states = optuna.trial.TrialState
        with quiet():
            if trial.asked is None:
                # Optuna is not told of defaults that are outside of the space or fail.
                told = self.space.told(trial.values)
                if told is not None and trial.state == "done":
                    params, distributions = told
                    self._study.add_trial(
                        optuna.create_trial(params=params, distributions=distributions, value=trial.value)
                    )
            elif trial.state == "failed":
                self._study.tell(trial.asked, state=states.FAIL)
            elif trial.state == "dropped":
                trial.asked.report(trial.value, trial.users)
                self._study.tell(trial.asked, state=states.PRUNED)
            else:
                self._study.tell(trial.asked, trial.value)


def _text(params: Mapping[str, Any]) -> str:
    return json.dumps(params, sort_keys=True)  # tells 1 from true
