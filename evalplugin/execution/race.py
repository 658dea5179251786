"""The race: a trial is dropped after a part of the users where it is worse than the incumbent beyond chance."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np

from evalplugin.base.arrays import Codes, Floats
from evalplugin.base.libraries import special
from evalplugin.metrics.moments import Moments

_SHARES = (8, 4, 2)  # a trial is judged after an eighth, a quarter and a half of the users
_ALPHA = 0.01  # of each test: of the trials as good as the incumbent, at most 3 % are dropped
_MIN_USERS = 20  # with a value, below which the test's level does not hold


@dataclass(frozen=True, eq=False)
class Race:
    """The incumbent of a study, and the order in which a trial meets the users."""

    users: Codes  # (U,) codes of the test users in random order
    values: Floats  # (U,) the incumbent's value of the metric for each of them, NaN where it is undefined
    higher_is_better: bool

    def stages(self) -> list[Codes]:
        """Return the users whose lists are made in each stage, ascending; together all users, each once."""
        cuts = [len(self.users) // share for share in _SHARES]
        return [np.sort(part) for part in np.split(self.users, cuts) if len(part)]

    def is_worse(self, users: Codes, values: Floats) -> bool:
        """Return whether a trial is worse than the incumbent: by a one-sided paired t-test at the level of 1 %.

        ``users`` (n,) are those seen so far, ``values`` (n,) the trial's value for each of them.
        """
        order = np.argsort(self.users)
        incumbent = self.values[order[np.searchsorted(self.users, users, sorter=order)]]
        gain = values - incumbent if self.higher_is_better else incumbent - values
        gain = gain[~np.isnan(gain)]
        n = len(gain)
        if n < _MIN_USERS:
            return False
        moments = Moments.of(gain)
        mean, deviation = moments.mean, moments.std
        if deviation == 0.0:
            return mean < 0.0

        return bool(special.stdtr(n - 1, mean / (deviation / math.sqrt(n))) < _ALPHA)

    @property
    def digest(self) -> str:
        """A hash of all that decides which trials are dropped, and when."""
        content = hashlib.sha256(f"{_SHARES} {_ALPHA} {_MIN_USERS} {self.higher_is_better} ".encode())
        content.update(
            np.ascontiguousarray(self.users).tobytes() + np.ascontiguousarray(self.values).tobytes()
        )
        return content.hexdigest()
