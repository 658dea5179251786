"""MLflow runs read back as values that can be compared."""

__all__: list[str] = []
