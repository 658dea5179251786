"""Lists from any system: read from tables and files, scored in memory or in partitions."""

from evalplugin.lists.columns import ListColumns, ScoreRequest
from evalplugin.lists.evaluator import Evaluator
from evalplugin.lists.inputs import open_sources, score_lists
from evalplugin.lists.scores import ListScores, specs_of

__all__ = [
    "Evaluator",
    "ListColumns",
    "ListScores",
    "ScoreRequest",
    "open_sources",
    "score_lists",
    "specs_of",
]
