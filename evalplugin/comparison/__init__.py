"""Comparison of models: means, paired differences, intervals, tests."""

__all__: list[str] = []
