"""Ranks: the models over several datasets."""

__all__: list[str] = []
