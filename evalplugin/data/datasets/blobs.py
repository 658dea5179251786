"""The dataset ``blobs``: a worked example, small enough to check by hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalplugin.base.errors import Problem
from evalplugin.data.base import LoadContext, dataset
from evalplugin.data.interactions import Interactions

__all__ = ["Blobs"]

_USERS, _ITEMS = 10, 30


@dataset("blobs")
@dataclass(frozen=True)
class Blobs:
    """Ten users who each rate all of thirty items 0 or 1: scikit-learn's ``make_blobs``, rounded.

    ``make_blobs(n_samples=30, n_features=10, centers=3, random_state=10, cluster_std=5)``, scaled to 0..1
    over the whole array, rounded to 0 or 1 and flattened row by row; user j takes the values 30j .. 30j+29
    as the ratings of items 0..29. Every value is an interaction. To be used with ``split: none`` and
    ``candidates: all``.
    """

    def check(self, context: LoadContext) -> list[Problem]:
        """Return no problem: no file is needed."""
        return []

    def load(self, context: LoadContext) -> Interactions:
        """Return the 300 interactions, by user and item."""
        from sklearn.datasets import make_blobs

        values, _ = make_blobs(n_samples=30, n_features=10, centers=3, random_state=10, cluster_std=5)
        scaled = (values - values.min()) / (values.max() - values.min())
        user, item = np.divmod(np.arange(_USERS * _ITEMS, dtype=np.int32), _ITEMS)
        rating = np.round(scaled).ravel().astype(np.float32)
        return Interactions(user, item, rating, None, np.arange(_USERS), np.arange(_ITEMS))
