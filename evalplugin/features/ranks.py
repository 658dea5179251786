"""Ranks over several datasets in a bake-off: a picture and a file of its summary run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.ranks import ranks_of
from evalplugin.execution.results import Bakeoff
from evalplugin.features.base import Feature, Results
from evalplugin.report.palette import model_colours
from evalplugin.report.ranks import rank_png
from evalplugin.tracking.write.items import Artifact, Item

__all__ = ["RANKS", "RanksFeature", "rank_files"]

RANKS = "data/ranks.json"


class RanksFeature(Feature):
    """Logs the average ranks of the models over the datasets."""

    def items(self, results: Results) -> Iterator[Item]:
        """Yield the ranks; none with one dataset."""
        yield from rank_files(results.result.bakeoff, results.comparisons)


def rank_files(bakeoff: Bakeoff, comparisons: Sequence[Comparison]) -> Iterator[Artifact]:
    """Yield the ranks over several datasets, as a picture and for programs; none with one dataset."""
    if found := ranks_of(comparisons):
        drawn = [ranks for ranks in found if len(ranks.models) > 1]
        if drawn:
            colours = model_colours(bakeoff.models, bakeoff.baseline)
            yield Artifact("ranks.png", rank_png(drawn, colours))
        yield Artifact(RANKS, json.dumps([ranks.to_json() for ranks in found], indent=1, ensure_ascii=False))
