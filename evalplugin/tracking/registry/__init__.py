"""The MLflow Model Registry: the champion read, the winner registered and served."""

__all__: list[str] = []
