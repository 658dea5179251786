"""The registered recommender: its lists, and the files that MLflow serves it from."""

from __future__ import annotations

from evalplugin.tracking.registry.served.lists import ServedLists, make_lists

__all__ = ["ServedLists", "make_lists"]
