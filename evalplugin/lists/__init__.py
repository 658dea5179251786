"""Lists from any system: read from tables and files, scored in memory or in partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evalplugin.base.libraries import imported_names

if TYPE_CHECKING:
    from evalplugin.lists.columns import ListColumns, ScoreRequest
    from evalplugin.lists.inputs import merge_events, open_sources, score_lists
    from evalplugin.lists.scores import ListScores, specs_of

__all__ = [
    "ListColumns",
    "ListScores",
    "ScoreRequest",
    "merge_events",
    "open_sources",
    "score_lists",
    "specs_of",
]

# Looked up when used: a model of this package is described without what its lists are scored by.
__getattr__ = imported_names(
    __name__,
    {
        "evalplugin.lists.columns": ("ListColumns", "ScoreRequest"),
        "evalplugin.lists.inputs": ("merge_events", "open_sources", "score_lists"),
        "evalplugin.lists.scores": ("ListScores", "specs_of"),
    },
)
