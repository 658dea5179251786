"""Contests of recommenders: facts about the models and their data beside the scores that are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any

from evalplugin.base.libraries import pa
from evalplugin.base.places import DataSplit
from evalplugin.comparison.compared import ComparedModel
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.contest import Contest
from evalplugin.data.background import Background
from evalplugin.execution.results import Costs, DataInfo, Finding, ModelResult, Plan
from evalplugin.segments import HistoryLengths

AS_LISTED = "as listed"  # shown and logged for a rule of lists from elsewhere, which is not known


@dataclass(frozen=True)
class Rules:
    """The data and rules that must be the same for two models' scores to be comparable."""

    train_digest: str | None  # of the first fold; None: lists from elsewhere, scored without it
    test_digest: str  # of all folds
    n: int  # length of the lists
    candidates: str | None  # None: not known, as of lists from elsewhere
    threshold: float | None
    metrics_hash: str  # of the definitions of all metrics
    ties: str | None = "hashed"  # order of items with equal scores; None: not known
    cold_users: str | None = "model"  # who answers users without train data; None: not known
    pool: str | None = None  # a hash of given candidates

    def shown(self) -> dict[str, Any]:
        """Return the fields by name, as they are shown."""
        unknown = ("candidates", "ties", "cold_users")
        return asdict(self) | {name: getattr(self, name) or AS_LISTED for name in unknown}


@dataclass(frozen=True)
class Tuned:
    """The tuning of a model's parameters, on data that the comparison does not test on."""

    metric: str  # canonical name
    split: str  # of the train data, such as last_n(n=1)
    budget: str  # such as 40 trials
    optimism: float  # by how much that is better than the value on the test data

    @classmethod
    def of(cls, result: ModelResult) -> Tuned | None:
        """Return the tuning of a model; None for a model that was not tuned."""
        if (tuning := result.tuning) is None:
            return None
        settings = tuning.settings
        return cls(
            metric=tuning.metric,
            split=split_text(settings["split"]),
            budget=budget_text(settings["budget"]),
            optimism=result.optimism,
        )


def split_text(split: Mapping[str, object]) -> str:
    """Return type and parameters of a split as text, unset ones left out: ``last_n(n=1)``."""
    params = ", ".join(
        f"{name}={value}" for name, value in split.items() if name != "type" and value is not None
    )
    return f"{split['type']}({params})" if params else str(split["type"])


def budget_text(budget: Mapping[str, float | None]) -> str:
    """Return a budget as text: ``40 trials, 600 s``."""
    units = {"trials": "{:,.0f} trials", "seconds": "{:g} s"}
    return ", ".join(units[name].format(value) for name, value in budget.items() if value is not None)


@dataclass(frozen=True, eq=False)
class ModelFacts:
    """Facts about a model beside its scores; all are unknown for a model of a table of scores."""

    type: str = ""  # registered
    costs: Costs | None = None
    # Makes ``top_n``, or the first k places of its lists; None: all of them.
    lists: Callable[[int | None], pa.Table] | None = field(default=None, repr=False)
    items: pa.Table | None = field(default=None, repr=False)  # counts by item, as of ``execution.per_item``
    tuned: Tuned | None = None  # None: its parameters are those of the config

    @property
    def top_n(self) -> pa.Table | None:
        """The lists: user, item, rank, score (and fold, from 1, when there are several); made anew each time."""
        return None if self.lists is None else self.lists(None)


@dataclass(frozen=True, eq=False, kw_only=True)
class Competition(Contest):
    """A contest of recommenders, with what reports show beside the numbers; a table of scores is a plain contest."""

    rules: Rules
    experiment: str = ""  # of the config; empty: not known
    facts: Mapping[str, ModelFacts] = field(default_factory=dict)  # by model
    histories: HistoryLengths | None = None  # None: not known
    background: Background | None = field(default=None, repr=False)
    findings: tuple[Finding, ...] = ()  # of checks of the data, and of results that were read from a store
    warnings: tuple[str, ...] = ()  # further sentences that must stand out, such as on the lists of a model


def competition_of(contest: Contest) -> Competition | None:
    """Return the contest of recommenders that a contest is; None: the models of a table of scores."""
    return contest if isinstance(contest, Competition) else None


def facts_of(contest: Contest, model: str) -> ModelFacts:
    """Return the facts about a model beside its scores."""
    return contest.facts.get(model, ModelFacts()) if isinstance(contest, Competition) else ModelFacts()


def findings_on(contest: Contest, further: Iterable[Finding] = ()) -> tuple[Finding, ...]:
    """Return the findings of checks on a contest: of its data, then ``further`` ones, such as of all results."""
    own = contest.findings if isinstance(contest, Competition) else ()
    relevant = (f for f in further if f.dataset == contest.dataset and f.split in ("", contest.split))
    return (*own, *relevant)


def findings_of(comparisons: Iterable[Comparison], further: Sequence[Finding] = ()) -> tuple[Finding, ...]:
    """Return the findings of checks on any of the comparisons, each once."""
    return tuple(dict.fromkeys(f for c in comparisons for f in findings_on(c.contest, further)))


def warnings_on(contest: Contest, further: Iterable[Finding] = ()) -> tuple[str, ...]:
    """Return the findings on a contest as lines, then the further sentences that must stand out."""
    own = contest.warnings if isinstance(contest, Competition) else ()
    return (*(finding.line for finding in findings_on(contest, further)), *own)


def competitions_of(plan: Plan, results: Iterable[ModelResult]) -> list[Competition]:
    """Return one contest for each dataset and split of a bake-off, in config order."""
    competitions = []
    for place, group in groupby(results, key=lambda m: DataSplit.of(m.data)):
        models = list(group)
        info = models[0].data
        assert isinstance(info, DataInfo)  # a table of scores is a contest already
        competitions.append(_competition(plan, info, place, models))
    return competitions


def _competition(plan: Plan, info: DataInfo, place: DataSplit, models: Sequence[ModelResult]) -> Competition:
    return Competition(
        name=plan.id,
        experiment=plan.experiment,
        dataset=place.dataset,
        split=place.split,
        models=tuple(
            ComparedModel(m.model, m.per_user, m.fold_means, m.seed_means, error=m.failure) for m in models
        ),
        metrics=plan.headline,
        baseline=plan.baseline,
        seed=plan.seed,
        digest=info.test_digest,
        segments=info.segments,
        assumed=info.full.assumed,
        rules=Rules(
            train_digest=None if info.train is None else info.train.digest,
            test_digest=info.test_digest,
            n=plan.n,
            candidates=plan.candidates,
            threshold=plan.relevance.threshold,
            metrics_hash=plan.metrics_hash,
            ties=plan.ties,
            cold_users=plan.cold_users,
            pool=info.pool,
        ),
        facts={
            m.model: ModelFacts(
                m.type, m.costs, None if m.lists is None else m.lists.table, m.items, Tuned.of(m)
            )
            for m in models
        },
        histories=info.histories,
        background=info.background,
        findings=info.findings,
        warnings=tuple(note for m in models for note in m.shown_notes),
    )
