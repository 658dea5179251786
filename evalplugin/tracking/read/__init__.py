"""MLflow runs, read back: single runs, selections of runs, and contests."""

__all__: list[str] = []
