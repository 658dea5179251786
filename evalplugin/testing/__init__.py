"""Contract suites for plugin authors: the checks of components that evalplugin runs on its own.

In a test of your plugin::

    from evalplugin.testing import check_recommender

    def test_my_model_meets_the_contract():
        check_recommender(MyModel, factors=4)

No test framework is needed: a check raises AssertionError with the broken rule.
"""

from evalplugin.testing.dataset import check_dataset
from evalplugin.testing.engine import check_engine
from evalplugin.testing.filter import check_filter
from evalplugin.testing.metric import check_metric
from evalplugin.testing.model import check_recommender
from evalplugin.testing.segment import check_segment
from evalplugin.testing.split import check_split

__all__ = [
    "check_dataset",
    "check_engine",
    "check_filter",
    "check_metric",
    "check_recommender",
    "check_segment",
    "check_split",
]
