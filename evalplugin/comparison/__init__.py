"""Comparison of models: means, paired differences, statistics, trends over bake-offs, and the gate."""

__all__: list[str] = []
