"""The algorithms of scikit-surprise, fitted and turned into exact top-N lists."""

# Importing these modules registers their models.
from evalplugin.models.surprise import factors, knn, simple

__all__ = ["factors", "knn", "simple"]
