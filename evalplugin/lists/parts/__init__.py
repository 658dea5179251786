"""Parquet files of lists and truth, scored in parts of the users: in memory, out of core, or on an engine."""

from evalplugin.lists.parts.plan import parts_for, score_in_memory, score_in_parts

__all__ = ["parts_for", "score_in_memory", "score_in_parts"]
