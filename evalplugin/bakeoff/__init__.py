"""Whole bake-offs: from a checked config to results in MLflow, a decision and a notification."""
