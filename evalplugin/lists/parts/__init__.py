"""Parquet files of lists and truth, scored in parts of the users: in memory, out of core, or on an engine."""

from evalplugin.lists.parts.in_memory import score_by_ranges
from evalplugin.lists.parts.out_of_core import parts_for, score_in_parts

__all__ = ["parts_for", "score_by_ranges", "score_in_parts"]
