"""Metrics of the categories of listed items: calibration, and how many and how evenly categories are listed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evalplugin.base.arrays import Floats, Ints, row_entries, search
from evalplugin.metrics.base import UserMetric, metric
from evalplugin.metrics.context import ScoringContext
from evalplugin.metrics.train_data import ItemCategories, check_attribute


@dataclass(frozen=True)
class _CategoryMetric(UserMetric):
    """A metric of the categories that an attribute gives to the items."""

    needs = ("train", "item_attributes")
    about = "lists"

    attribute: Annotated[
        str,
        Field(
            min_length=1, description="Attribute of the items with their categories, such as Action|Comedy"
        ),
    ] = "category"

    def check_attributes(self, items: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Check that the items have the attribute.

        Raises:
            DataError: They have none of the name; the message has the nearest one.
        """
        check_attribute(self.attribute, items)

    def _categories(self, context: ScoringContext) -> ItemCategories:
        assert context.train is not None  # `needs` says so
        return context.train.categories(self.attribute)


@metric("calibration")
@dataclass(frozen=True)
class Calibration(_CategoryMetric):
    """Divergence of the categories in the top k from those in the user's history: 0 where they have the same shares.

    calibration@k = sum over categories c of p(c) ln(p(c) / q'(c)), with p(c) the mean over the items of the user's
    train data of the item's share in c, q(c) the same of the items in the top k, and q' = (1 - smoothing) q +
    smoothing p (the Kullback-Leibler divergence in nats). An item of several categories has an equal share in each;
    items without one, and ratings, do not count. A list with none of the user's categories has the highest value,
    -ln(smoothing). Undefined (NaN) for a user without a list or without a categorised item in the train data. From 0
    up, lower is better.

    Source: Steck, RecSys 2018 (C_KL, with alpha 0.01).

    >>> from evalplugin.metrics import evaluate
    >>> attributes = {"category": {"a": "Action", "b": "Comedy", "c": "Action|Comedy"}}
    >>> given = {"truth": [{}] * 2, "train": [{"a", "b"}] * 2, "item_attributes": attributes}
    >>> evaluate("calibration", lists=[["c"], ["b", "a"]], **given)
    [0.0, 0.0]
    >>> evaluate("calibration(smoothing=0.5)", lists=[["a"], []], **given)  # ln(0.5 / 0.75) / 2 + ln(0.5 / 0.25) / 2
    [0.14384103622589042, nan]
    """

    higher_is_better = False
    bounds = (0.0, float("inf"))

    smoothing: Annotated[
        float, Field(gt=0, lt=1, description="Share of the history that is mixed into the list")
    ] = 0.01

    def __call__(self, context: ScoringContext, k: int) -> Floats:
        """Return float64 (B,)."""
        assert context.train is not None and context.user is not None  # `needs` says so
        categories, item = self._categories(context), context.item[:, :k]
        history = context.train.history_shares(self.attribute)
        entries, row = row_entries(history.indptr, context.user)
        p = history.share[entries]
        known = row * categories.n + history.category[entries]  # ascending
        listed_row, category, weight = categories.of_lists(item)
        listed = listed_row * categories.n + category
        position, common = search(known, listed)
        n_items = np.maximum(categories.n_items_of_lists(item), 1)[row]
        q = np.bincount(position[common], weights=weight[common], minlength=len(known)) / n_items
        divergence = p * np.log(p / ((1.0 - self.smoothing) * q + self.smoothing * p))
        total = np.maximum(np.bincount(row, weights=divergence, minlength=context.n_users), 0.0)
        has_history = np.diff(history.indptr)[context.user] > 0
        return np.where(has_history & (context.n_listed > 0), total, np.nan)


@metric("category_coverage")
@dataclass(frozen=True)
class CategoryCoverage(_CategoryMetric):
    """Share of all categories that are in the user's top k.

    category_coverage@k = different categories of the items in the top k / different categories of the catalogue. An
    item may have several or none. Undefined (NaN) for a user without a list. Range 0 to 1, higher is better.

    Source: Zhai et al., SIGIR 2003 (subtopic recall), with the categories of the catalogue as subtopics.

    >>> from evalplugin.metrics import evaluate
    >>> attributes = {"category": {"a": "Action", "b": "Comedy|Drama", "c": "Drama|War", "d": None}}
    >>> lists, train = [["a", "b"], ["b", "c"], ["d"], []], [{"a"}]
    >>> evaluate("category_coverage@2", lists=lists, truth=[{}] * 4, train=train, item_attributes=attributes)
    [0.75, 0.75, 0.0, nan]
    """

    higher_is_better = True
    bounds = (0.0, 1.0)

    def __call__(self, context: ScoringContext, k: int) -> Floats:
        """Return float64 (B,)."""
        categories = self._categories(context)
        row, _ = _listed(categories, context, k)
        share = np.bincount(row, minlength=context.n_users) / max(categories.n, 1)
        return np.where(context.n_listed > 0, share, np.nan)


@metric("category_entropy")
@dataclass(frozen=True)
class CategoryEntropy(_CategoryMetric):
    """Entropy, in bits, of the categories in the user's top k: the higher, the more evenly categories are listed.

    category_entropy@k = -sum over categories c of q(c) log2 q(c), with q(c) the mean over the items in the top k of
    the item's share in c. Shares are those of ``calibration``; 0 where no item has a category. Undefined (NaN) for
    a user without a list. From 0 (one category) to log2 of their number, higher is better.

    Source: Shannon, 1948; of attributes of items in Di Noia et al., RecSys 2014.

    >>> from evalplugin.metrics import evaluate
    >>> attributes = {"category": {"a": "Action", "b": "Comedy|Drama", "c": "Action"}}
    >>> lists, train = [["a", "b"], ["a", "c"], []], [{"a"}]
    >>> evaluate("category_entropy@2", lists=lists, truth=[{}] * 3, train=train, item_attributes=attributes)
    [1.5, 0.0, nan]
    """

    higher_is_better = True
    bounds = (0.0, float("inf"))

    def __call__(self, context: ScoringContext, k: int) -> Floats:
        """Return float64 (B,)."""
        categories = self._categories(context)
        row, weight = _listed(categories, context, k)
        q = weight / categories.n_items_of_lists(context.item[:, :k])[row]
        total = np.bincount(row, weights=-q * np.log2(q), minlength=context.n_users)
        return np.where(context.n_listed > 0, np.maximum(total, 0.0), np.nan)


def _listed(categories: ItemCategories, context: ScoringContext, k: int) -> tuple[Ints, Floats]:
    """Return user (position) and weight of each of the different categories of each user's top k, by user."""
    row, category, weight = categories.of_lists(context.item[:, :k])
    n = max(categories.n, 1)
    different, which = np.unique(row * n + category, return_inverse=True)
    total = np.bincount(which, weights=weight, minlength=len(different)).astype(np.float64, copy=False)
    return different // n, total
