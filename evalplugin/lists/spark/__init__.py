"""Spark DataFrames of lists and truth, scored on Spark."""

from evalplugin.lists.spark.frames import check_frames, is_spark, score_frames

__all__ = ["check_frames", "is_spark", "score_frames"]
