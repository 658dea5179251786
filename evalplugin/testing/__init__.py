"""Contract suites for plugin authors, as evalplugin runs them on its own components.

In a test of your plugin::

    from evalplugin.testing import check_recommender

    def test_my_model_meets_the_contract():
        check_recommender(MyModel, factors=4)

A check takes a registered name, a class, or a callable that returns a new component, and its parameters by name. It
raises AssertionError with the broken rule, and no input may be modified.
"""

from evalplugin.testing.data import check_dataset, check_filter, check_split
from evalplugin.testing.engine import check_engine
from evalplugin.testing.metric import check_metric
from evalplugin.testing.model import check_recommender
from evalplugin.testing.segment import check_segment

__all__ = [
    "check_dataset",
    "check_engine",
    "check_filter",
    "check_metric",
    "check_recommender",
    "check_segment",
    "check_split",
]
