"""Off-policy values in a bake-off: what the log can tell of each model, and a sweep over assumed propensities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from evalplugin.base.libraries import pd
from evalplugin.base.places import DataSplit
from evalplugin.comparison.comparison import Comparison
from evalplugin.features.base import Bakeoff, Feature
from evalplugin.features.off_policy.diagnostics import diagnostics_of
from evalplugin.features.off_policy.report import diagnostics_table, sweep_table
from evalplugin.features.off_policy.sweep import Sweep, sweep_of
from evalplugin.report.sections import Section
from evalplugin.report.sentences.off_policy import assumed_lines
from evalplugin.tracking.write.items import Artifact, Item

OFF_POLICY = "data/off_policy.json"


@dataclass
class OffPolicyFeature(Feature):
    """Shows and logs what the log can tell of the models' values; idle where no metric is such a value."""

    sweeps: dict[tuple[DataSplit, str], Sweep] = field(default_factory=dict)  # by place and metric

    def after(self, bakeoff: Bakeoff) -> None:
        """Score lists again as propensities vary, where these are assumed, by the first value of each comparison."""
        for comparison in bakeoff.comparisons:
            place = comparison.contest.place
            jobs = [job for job in bakeoff.jobs if DataSplit.of(job.info) == place]
            for first in diagnostics_of(comparison)[:1] if comparison.contest.assumed else ():
                with bakeoff.workspace.observer.progress(f"vary the propensities of {place}"):
                    self.sweeps[place, first.metric] = sweep_of(comparison, first.metric, jobs)

    def sections(self, bakeoff: Bakeoff, comparisons: Sequence[Comparison]) -> Iterator[Section]:
        """Yield a table for each value of each comparison, and that of its sweep."""
        for comparison in comparisons:
            for found in diagnostics_of(comparison):
                assumed = " ".join(assumed_lines(comparison.contest, [found.metric]))
                yield Section(table=diagnostics_table(found, assumed))
                if (sweep := self.sweeps.get((comparison.contest.place, found.metric))) is not None:
                    yield Section(table=sweep_table(sweep))

    def items(self, bakeoff: Bakeoff) -> Iterator[Item]:
        """Yield the diagnostics for programs."""
        for shown in self.facts(bakeoff).values():
            # In JSON of pandas, undefined numbers are null.
            text = pd.Series(shown).to_json(
                orient="records", indent=1, force_ascii=False, double_precision=15
            )
            yield Artifact(OFF_POLICY, text)

    def facts(self, bakeoff: Bakeoff) -> Mapping[str, Any]:
        """Return the diagnostics of each value of each comparison, and its sweep."""
        shown = []
        for comparison in bakeoff.comparisons:
            for found in diagnostics_of(comparison):
                sweep = self.sweeps.get((comparison.contest.place, found.metric))
                shown.append({**asdict(found), "sweep": sweep and asdict(sweep)})
        return {"off_policy": shown} if shown else {}


FEATURE = OffPolicyFeature
