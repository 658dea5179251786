"""Spark DataFrames of lists and truth, scored on Spark."""

from evalplugin.lists.spark.frames import is_spark, score_frames

__all__ = ["is_spark", "score_frames"]
