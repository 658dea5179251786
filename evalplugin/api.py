"""``evalplugin.run`` and ``evalplugin.score``: a bake-off, and the scores of lists made elsewhere, from Python."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from evalplugin.lists import Columns, ListScores, score_lists, specs_of

if TYPE_CHECKING:
    from evalplugin.bakeoff import Outcome
    from evalplugin.metrics import MetricSpec

__all__ = ["run", "score"]


def run(
    config: str | Path | Mapping[str, Any],
    *,
    overrides: Sequence[str] = (),
    tracking_uri: str | None = None,
    experiment: str | None = None,
    data_home: str | Path | None = None,
) -> Outcome:
    """Return the outcome of a bake-off: ``.result`` with every model's scores, and ``.links`` into MLflow.

    Args:
        config: A YAML file, or the same as a mapping; a dataset of type ``dataframe`` takes its ``frame`` here.
        overrides: Assignments such as ``models.0.params.k=20``.
        tracking_uri, experiment: Win over the config's.
        data_home: Folder of downloaded datasets; None: the one that EVALPLUGIN_DATA_HOME names, if any.

    Raises:
        ConfigError: Everything that is wrong with the config.
        DataError: Data that is missing or breaks a rule.
        TrackingError: The tracking store cannot be reached.
    """
    from evalplugin.bakeoff import run_bakeoff
    from evalplugin.config import load

    home = data_home if data_home is not None else os.environ.get("EVALPLUGIN_DATA_HOME")
    home = Path(home) if home is not None else None
    checked = load(
        config if isinstance(config, Mapping) else Path(config), overrides=overrides, data_home=home
    )
    return run_bakeoff(checked, data_home=home, tracking_uri=tracking_uri, experiment=experiment)


def score(
    lists: Any,
    truth: Any,
    metrics: Sequence[str | MetricSpec],
    *,
    train: Any = None,
    threshold: float | None = None,
    user: str = "user",
    item: str = "item",
    rank: str | None = None,
    score: str | None = None,
    rating: str | None = None,
    truth_user: str | None = None,
    truth_item: str | None = None,
    format: Literal["auto", "csv", "parquet", "trec"] = "auto",
    memory: str | int | None = None,
) -> ListScores:
    """Return the scores of lists from any system: ``.per_user``, ``.means`` and ``.counts``.

    Everybody who has a list or a truth is scored. A user with relevant truth but without a list scores 0; a
    user without relevant truth is undefined (NaN), counted, and left out of the means.

    Args:
        lists: A pandas DataFrame, an Arrow table or anything that speaks Arrow (polars), in any order of
            rows: user, item, and a rank or a score. Ranks are 1, 2, 3 and so on for each user, without holes.
            Scores rank descending, equal ones by item id ascending. Where both are there and neither is
            named, the rank counts. Or the path of a file, a folder of Parquet files, or a pattern.
        truth: The held-out interactions: user, item and, where there is one, a rating (without: 1); also files.
        metrics: Names such as ``ndcg@10``.
        train: The train data, user, item and perhaps rating, for metrics that need it;
            also files.
        threshold: Ratings from it on are relevant; None: ratings above 0 are. The gain stays the rating.
        user, item, rank, score, rating: Names of columns. ``rank``, ``score`` and ``rating`` may be left out
            where they are called so.
        truth_user, truth_item: Names of these columns in truth and train data; None: as in the lists.
        format: Of files; auto: by their names. A TREC run is ranked by its score, as everywhere.
        memory: How much may be used, such as ``2GB``: lists and truth in Parquet files that need more are
            scored part by part, with the same results to the last bit; None: everything is read at once.

    Raises:
        DataError: No rows, a column that is not there, a missing id, ids that are integers here and text
            there, ranks or scores that break a rule, an item twice in a list or in a truth.
        ParameterError, UnknownNameError: A name that means no metric.

    >>> import pandas as pd, evalplugin
    >>> lists = pd.DataFrame({"user": [1, 1, 2, 2], "item": ["a", "b", "c", "a"], "rank": [1, 2, 1, 2]})
    >>> truth = pd.DataFrame({"user": [1, 2], "item": ["b", "c"]})
    >>> evalplugin.score(lists, truth, ["rr", "hit@1"]).means
    {'rr': 0.75, 'hit@1': 0.5}
    """
    columns = Columns(user, item, rank, score, rating, truth_user, truth_item)
    return score_lists(
        lists, truth, specs_of(metrics), train=train, threshold=threshold, columns=columns, format=format,
        memory=memory,
    )  # fmt: skip
