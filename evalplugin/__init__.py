"""Evidence-grade bake-offs of recommenders, inside MLflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evalplugin._version import __version__
from evalplugin.base.libraries import imported_names

if TYPE_CHECKING:
    from evalplugin.api import compare as compare
    from evalplugin.api import compare_scores as compare_scores
    from evalplugin.api import history as history
    from evalplugin.api import run as run
    from evalplugin.api import score as score
    from evalplugin.by_hand import evaluate as evaluate
    from evalplugin.by_hand import model_named as model_named
    from evalplugin.data import Interactions as Interactions
    from evalplugin.data import data_filter as data_filter
    from evalplugin.data import dataset as dataset
    from evalplugin.data import impressions as impressions
    from evalplugin.data import split as split
    from evalplugin.metrics import metric as metric
    from evalplugin.models import FactorModel as FactorModel
    from evalplugin.models import TopN as TopN
    from evalplugin.models import model as model
    from evalplugin.models import surprise_top_n as surprise_top_n
    from evalplugin.segments import segment as segment

__all__ = [
    "FactorModel",
    "Interactions",
    "TopN",
    "__version__",
    "compare",
    "compare_scores",
    "data_filter",
    "dataset",
    "evaluate",
    "history",
    "impressions",
    "metric",
    "model",
    "model_named",
    "run",
    "score",
    "segment",
    "split",
    "surprise_top_n",
]


# Names are looked up when they are used, so that `import evalplugin` and `--help` stay instant.
__getattr__ = imported_names(
    __name__,
    {
        "evalplugin.api": ("compare", "compare_scores", "history", "run", "score"),
        "evalplugin.by_hand": ("evaluate", "model_named"),
        "evalplugin.data": ("Interactions", "data_filter", "dataset", "impressions", "split"),
        "evalplugin.metrics": ("metric",),
        "evalplugin.models": ("FactorModel", "TopN", "model", "surprise_top_n"),
        "evalplugin.segments": ("segment",),
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
