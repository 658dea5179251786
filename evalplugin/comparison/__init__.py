"""Comparison of models: means, paired differences, intervals, tests."""
