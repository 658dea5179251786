"""``Bakeoff``: one value that fills up from plan to links; and ``Feature``: a part of it that can be left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalplugin.base.libraries import pd
from evalplugin.comparison.comparison import Comparison
from evalplugin.execution.engines import Session
from evalplugin.execution.results import Finding, ModelResult, Plan
from evalplugin.execution.runner import Job, PreparedData
from evalplugin.execution.store.journal import Header, Journal
from evalplugin.features import modules
from evalplugin.report.charts.pictures import ModelPicture
from evalplugin.report.competition import findings_of
from evalplugin.report.documents import comparisons_text
from evalplugin.report.notebook import Comparisons
from evalplugin.report.sections import Section
from evalplugin.tracking.read.logged import LoggedRun
from evalplugin.tracking.write.board import Links
from evalplugin.tracking.write.items import Item
from evalplugin.tracking.write.tracker import MlflowTracker
from evalplugin.workspace import Workspace

if TYPE_CHECKING:
    import altair as alt

    from evalplugin.features.gate.decision import Decision


@dataclass(eq=False, repr=False)
class Bakeoff:
    """The bake-off that ``evalplugin.run`` returns.

    ``models`` has each model's result, ``comparisons`` one for each dataset and split, ``links`` leads into MLflow,
    ``plan`` has the rules, and ``found`` what features add, by its type. ``to_frame``, ``plot`` and ``to_html`` are
    those of ``Comparisons``.
    """

    workspace: Workspace
    features: Sequence[Feature]
    command: Sequence[str] = ()  # arguments of `evalplugin run`, for messages
    found: dict[type, Any] = field(default_factory=dict)  # what features add, by its type

    # Read and split, and nothing is fitted yet. Both are empty once all is done, as folds may be large.
    prepared: list[PreparedData] = field(init=False)
    jobs: list[Job] = field(init=False)

    plan: Plan = field(init=False)
    inputs: Mapping[str, str] = field(init=False)  # fingerprints of the models' inputs
    header: Header = field(init=False)  # of a journal of its own
    journal: Journal = field(init=False)  # its own, or the one that it continues

    is_idle: bool = field(init=False)  # whether there was nothing left to compute
    session: Session = field(init=False)  # where tasks run
    tracker: MlflowTracker = field(init=False)  # where results go

    models: tuple[ModelResult, ...] = field(init=False)  # in config order, failed ones included
    comparisons: tuple[Comparison, ...] = field(init=False)  # one for each dataset and split, in config order
    result_findings: tuple[Finding, ...] = field(default=(), init=False)  # of checks of the results
    links: Links = field(init=False)

    @property
    def decision(self) -> Decision | None:
        """The decision of the gate; None where the config has no gate."""
        from evalplugin.features.gate.decision import Decision

        return self.found.get(Decision)

    @property
    def failed(self) -> tuple[ModelResult, ...]:
        """The models that failed."""
        return tuple(model for model in self.models if model.error is not None)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of the checks."""
        return findings_of(self.comparisons, self.result_findings)

    @property
    def errors(self) -> list[Finding]:
        """The findings that the config declares to be errors."""
        return [finding for finding in self.findings if finding.is_error]

    def sections(self, comparisons: Sequence[Comparison] | None = None) -> list[Section]:
        """Return the features' sections of the reports on the comparisons, or on others of the same results."""
        shown = self.comparisons if comparisons is None else comparisons
        return list(chain.from_iterable(feature.sections(self, shown) for feature in self.features))

    def facts(self) -> dict[str, Any]:
        """Return the features' values for programs, as values of JSON; of two with one key the first one wins."""
        return dict(chain.from_iterable(feature.facts(self).items() for feature in reversed(self.features)))

    @property
    def fails(self) -> bool:
        """Whether `evalplugin run` ends with exit code 1: a model failed, or a feature says so."""
        return bool(self.failed) or any(feature.fails(self) for feature in self.features)

    def to_frame(self, metric: str | None = None, *, segment: str | None = None) -> pd.DataFrame:
        """Return the numbers, one row for each model and metric; see ``Comparisons.to_frame``."""
        return self._shown.to_frame(metric, segment=segment)

    def plot(self, metric: str | None = None) -> alt.VConcatChart:
        """Return an Altair chart of the differences from the baseline; see ``Comparisons.plot``."""
        return self._shown.plot(metric)

    def to_html(self, path: str | Path) -> str | Path:
        """Write the page with everything about the bake-off, one file; return its path or URI."""
        return self._shown.to_html(path)

    @property
    def _shown(self) -> Comparisons:
        return Comparisons(self.comparisons, self.sections)

    def __repr__(self) -> str:
        statements = [section.statement for section in self.sections()]
        reasons = [statement.reason for statement in statements if statement is not None]
        return comparisons_text(self.comparisons, reasons, self.result_findings)

    def _repr_html_(self) -> str:
        return self._shown._repr_html_()


class Feature:
    """A part of a bake-off that can be left out; it implements the moments that it needs.

    The flow makes one of each kind for a bake-off, and calls all of them at each moment, in the order of its tuple.
    """

    def around(self, bakeoff: Bakeoff) -> AbstractContextManager[object]:
        """Return a context manager around all that follows; these end in order too."""
        return nullcontext()

    def start(self, bakeoff: Bakeoff) -> None:
        """Give the bake-off another workspace, with another config; nothing is read yet."""

    def with_data(self, bakeoff: Bakeoff) -> None:
        """Look at the data, read and split; there are no jobs yet."""

    def with_jobs(self, bakeoff: Bakeoff) -> None:
        """Look at the jobs that are about to run; nothing is fitted yet."""

    def difference(self, last: LoggedRun) -> str | None:
        """Return a reason to run although data, config and code are those of the last bake-off; None: there is none."""
        return None

    def earlier(self, bakeoff: Bakeoff) -> Journal | None:
        """Return the journal of an earlier bake-off to continue; None: this is a new one.

        Raises:
            UnchangedError: There is nothing to do.
        """
        return None

    def opened(self, bakeoff: Bakeoff) -> None:
        """Take notice of the bake-off, once the tracking store is open and it can be continued if it is cut off."""

    def before_tasks(self, bakeoff: Bakeoff) -> None:
        """Give the bake-off other jobs; their tasks are about to run."""

    def pictures(self, bakeoff: Bakeoff) -> Iterator[ModelPicture]:
        """Yield further pictures of the models' runs."""
        yield from ()

    def after(self, bakeoff: Bakeoff) -> None:
        """Add to ``bakeoff.found``: all models are scored and compared, and the comparisons not logged yet."""

    def sections(self, bakeoff: Bakeoff, comparisons: Sequence[Comparison]) -> Iterator[Section]:
        """Yield this feature's sections of the reports on the comparisons."""
        yield from ()

    def items(self, bakeoff: Bakeoff) -> Iterator[Item]:
        """Yield this feature's log items of the summary run."""
        yield from ()

    def end(self, bakeoff: Bakeoff) -> None:
        """Do what is left to do once everything is logged."""

    def facts(self, bakeoff: Bakeoff) -> Mapping[str, Any]:
        """Return this feature's values for programs, as values of JSON by the keys of the outcome."""
        return {}

    def fails(self, bakeoff: Bakeoff) -> bool:
        """Return whether the command ends with exit code 1 for what this feature has found."""
        return False


def all_features() -> list[Feature]:
    """Return the features of a new bake-off, in the order of ``FEATURES``."""
    return [module.FEATURE() for module in modules("feature")]
