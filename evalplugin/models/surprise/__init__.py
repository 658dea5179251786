"""Models on scikit-surprise: its algorithms, fitted, with exact top-N lists."""

# Importing these modules registers their models.
from evalplugin.models.surprise import factors, knn, simple

__all__ = ["factors", "knn", "simple"]
