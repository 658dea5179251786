"""MLflow runs, read back: single runs, selections of runs, and contests."""
