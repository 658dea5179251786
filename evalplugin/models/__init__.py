"""Recommenders: protocols, built-in models, and top-N lists from them."""

from evalplugin.base.arrays import NO_ITEM
from evalplugin.models import (  # noqa: F401 - registers the models
    baselines,
    ease,
    implicit,
    lenskit,
    logging_policy,
    neighbours,
    sessions,
    sklearn,
    slim,
    surprise,
)
from evalplugin.models.base import (
    MODELS,
    Recommender,
    defines,
    model,
)
from evalplugin.models.factors import FactorModel
from evalplugin.models.recommend import BLOCK_BYTES, predict_ratings, recommend
from evalplugin.models.selection import TopN, select_top_n
from evalplugin.models.surprise.top_n import SlowEstimates, surprise_top_n
from evalplugin.models.threads import limit_threads, one_blas_thread, thread_count

__all__ = [
    "BLOCK_BYTES",
    "MODELS",
    "NO_ITEM",
    "FactorModel",
    "Recommender",
    "SlowEstimates",
    "TopN",
    "defines",
    "limit_threads",
    "model",
    "one_blas_thread",
    "predict_ratings",
    "recommend",
    "select_top_n",
    "surprise_top_n",
    "thread_count",
]
