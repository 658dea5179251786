"""Statistics over users; the package exports the functions that the documentation uses."""

from evalplugin.comparison.statistics.best import may_be_best
from evalplugin.comparison.statistics.one_sided import lower_bound
from evalplugin.comparison.statistics.power import detectable_gain, users_needed

__all__ = ["detectable_gain", "lower_bound", "may_be_best", "users_needed"]
