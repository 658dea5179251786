"""What is logged to MLflow, and the one place that logs it."""

__all__: list[str] = []
