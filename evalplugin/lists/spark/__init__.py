"""Spark DataFrames of lists and truth, scored on Spark."""
