"""Off-policy values in a bake-off: what the log can tell of each model, and a sweep over assumed propensities."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from evalplugin.base.numbers import finite
from evalplugin.base.places import DataSplit
from evalplugin.comparison.comparison import Comparison
from evalplugin.features.base import Bakeoff, Feature
from evalplugin.features.off_policy.diagnostics import Diagnostics, diagnostics_of
from evalplugin.features.off_policy.report import clip_spec, clip_svg, diagnostics_table, sweep_table
from evalplugin.features.off_policy.sweep import Sweep, sweep_of
from evalplugin.report.charts.palette import model_colours
from evalplugin.report.charts.pictures import png_of
from evalplugin.report.sections import Section
from evalplugin.report.sentences.off_policy import assumed_lines
from evalplugin.tracking.write.items import Artifact, Item

OFF_POLICY = "data/off_policy.json"


@dataclass
class OffPolicyFeature(Feature):
    """Shows and logs what the log can tell of the models' values; idle where no metric is such a value."""

    sweeps: dict[DataSplit, Sweep] = field(default_factory=dict)

    def after(self, bakeoff: Bakeoff) -> None:
        """Score lists again as propensities vary, where these are assumed."""
        for comparison in bakeoff.comparisons:
            place = comparison.contest.place
            jobs = [job for job in bakeoff.jobs if DataSplit.of(job.info) == place]
            for first in diagnostics_of(comparison)[:1] if comparison.contest.assumed else ():
                with bakeoff.workspace.observer.progress(f"vary the propensities of {place}"):
                    self.sweeps[place] = sweep_of(comparison, first.metric, jobs)

    def sections(self, bakeoff: Bakeoff, comparisons: Sequence[Comparison]) -> Iterator[Section]:
        """Yield a table with charts for each value of each comparison, and the table of the sweep of the first one."""
        for comparison in comparisons:
            for found in diagnostics_of(comparison):
                assumed = " ".join(assumed_lines(comparison.contest, [found.metric]))
                picture = partial(_picture, found) if any(own.clipped for own in found.models) else None
                yield Section(table=diagnostics_table(found, assumed), picture=picture, is_below=True)
            if (sweep := self.sweeps.get(comparison.contest.place)) is not None:
                yield Section(table=sweep_table(sweep), is_below=True)

    def items(self, bakeoff: Bakeoff) -> Iterator[Item]:
        """Yield the diagnostics for programs, and the charts of the first value of each comparison."""
        if facts := self.facts(bakeoff):
            yield Artifact(OFF_POLICY, json.dumps(facts["off_policy"], indent=1, ensure_ascii=False))
        colours = model_colours(bakeoff.plan.models, bakeoff.plan.baseline)
        for comparison in bakeoff.comparisons:
            for found in diagnostics_of(comparison)[:1]:
                if (spec := clip_spec(found, colours)) is not None:
                    several = f"-{found.dataset}-{found.split}" if len(bakeoff.comparisons) > 1 else ""
                    yield Artifact(f"off_policy{several}.png", png_of(spec))

    def facts(self, bakeoff: Bakeoff) -> Mapping[str, Any]:
        """Return the diagnostics of each value of each comparison, and its sweep."""
        shown = []
        for comparison in bakeoff.comparisons:
            sweep = self.sweeps.get(comparison.contest.place)
            for found in diagnostics_of(comparison):
                is_own = sweep is not None and sweep.metric == found.metric
                shown.append({**asdict(found), "sweep": asdict(sweep) if sweep and is_own else None})
        return {"off_policy": finite(shown)} if shown else {}


def _picture(found: Diagnostics, colours: Mapping[str, str]) -> str:
    spec = clip_spec(found, colours)
    assert spec is not None, "a section without charts has no picture"
    return clip_svg(spec)


FEATURE = OffPolicyFeature
