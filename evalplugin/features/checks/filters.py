"""Checks of the filters of a dataset."""

from __future__ import annotations

from collections.abc import Iterator

from evalplugin.base.numbers import share
from evalplugin.config import CheckedConfig
from evalplugin.data.filters import filter_text
from evalplugin.execution.runner import PreparedData
from evalplugin.features.checks.base import Found, data_check

__all__: list[str] = []


@data_check(
    "EV117",
    title="a filter that looks at the test data",
    rule="Found where a filter counts interactions (`k_core`, `min_count`, or one that says so by `depends_on_others`) "
    "and, on the train data of the first fold alone, would leave out interactions that are in it. A filter before the "
    "split sees train and test data together.",
    why="Who is in the data then depends on what users did afterwards: in production, the same users and items would "
    "be missing, or have less history. Filtered data has users and items that are easier to predict, and models may "
    "come in another order on it.",
    source="Beel and Brunel: Data Pruning in Recommender Systems Research: Best-Practice or Malpractice? RecSys 2019.",
    remedy="Leave the filter out, lower its numbers, or report the result for what it is: one for users and items that "
    "will have this many interactions. `min_train` of a split asks for train interactions alone.",
)
def _filters_that_see_the_test_data(config: CheckedConfig, data: PreparedData) -> Iterator[Found]:
    (dataset,) = (one for one in config.datasets if one.name == data.info.dataset)
    train = data.folds[0].train
    for type, one in dataset.filters:
        if not getattr(one, "depends_on_others", False):
            continue
        lost = len(train) - int(one.keep(train).mask.sum())
        if lost:
            yield Found(
                f"filter {filter_text(type, one)} runs before the split and counts test interactions too: by the train "
                f"data alone, it would leave out {lost:,} more of {len(train):,} train interactions "
                f"({share(lost / len(train))})"
            )
