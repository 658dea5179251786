"""Whole bake-offs: from a checked config to results in MLflow, a decision and a notification."""

__all__: list[str] = []
