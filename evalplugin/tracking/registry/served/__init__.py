"""The registered recommender: what it answers with, and the file that MLflow loads it from."""

from __future__ import annotations

from evalplugin.tracking.registry.served.lists import ServedLists, make_lists

__all__ = ["ServedLists", "make_lists"]
