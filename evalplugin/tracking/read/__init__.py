"""MLflow runs, read back as contests and past bake-offs."""

__all__: list[str] = []
