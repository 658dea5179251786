"""Ranks over several datasets in a bake-off: a picture and a file of its summary run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from evalplugin.comparison.comparison import Comparison
from evalplugin.execution.results import Bakeoff
from evalplugin.features.base import Feature, Results
from evalplugin.features.ranks.ranks import ranks_of
from evalplugin.features.ranks.report import rank_png, rank_svg, ranks_table
from evalplugin.report.palette import model_colours
from evalplugin.report.sections import Section
from evalplugin.tracking.write.items import Artifact, Item

RANKS = "data/ranks.json"


class RanksFeature(Feature):
    """Shows and logs the average ranks of the models over the datasets."""

    def items(self, results: Results) -> Iterator[Item]:
        """Yield the ranks; none with one dataset."""
        yield from rank_files(results.result.bakeoff, results.comparisons)

    def sections(self, comparisons: Sequence[Comparison], values: Mapping[str, Any]) -> Iterator[Section]:
        """Yield a table for each split of several datasets."""
        return rank_sections(comparisons)


def rank_files(bakeoff: Bakeoff, comparisons: Sequence[Comparison]) -> Iterator[Artifact]:
    """Yield the ranks over several datasets, as a picture and for programs; none with one dataset."""
    if by_split := ranks_of(comparisons):
        drawn = [ranks for ranks in by_split if len(ranks.models) > 1]
        if drawn:
            colours = model_colours(bakeoff.models, bakeoff.baseline)
            yield Artifact("ranks.png", rank_png(drawn, colours))
        yield Artifact(
            RANKS, json.dumps([ranks.to_json() for ranks in by_split], indent=1, ensure_ascii=False)
        )


def rank_sections(comparisons: Sequence[Comparison]) -> Iterator[Section]:
    """Yield the ranks over several datasets, as a table with its picture; none with one dataset."""
    for ranks in ranks_of(comparisons):
        yield Section(
            table=ranks_table(ranks), picture=partial(rank_svg, ranks) if len(ranks.models) > 1 else None
        )
