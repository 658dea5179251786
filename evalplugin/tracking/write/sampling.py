"""Samples of users, the same in every run."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["sampled_users"]


def sampled_users(users: npt.NDArray[np.generic], size: int) -> npt.NDArray[np.intp]:
    """Return the positions of at most ``size`` users, ascending, those with the smallest hash of their id.

    So every run samples the same users, and tables can be joined.
    """
    if len(users) <= size:
        return np.arange(len(users))
    from pandas.util import hash_array

    hashes = hash_array(np.asarray(users), categorize=False)
    return np.sort(np.argsort(hashes, kind="stable")[:size])
