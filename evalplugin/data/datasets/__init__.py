"""The registered datasets."""

__all__: list[str] = []
