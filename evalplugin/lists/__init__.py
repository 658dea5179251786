"""Lists made elsewhere: read from tables and files, scored in memory or part by part."""

from evalplugin.lists.frames import Columns, ListScores, Tables, score_tables, specs_of
from evalplugin.lists.inputs import score_lists

__all__ = ["Columns", "ListScores", "Tables", "score_lists", "score_tables", "specs_of"]
