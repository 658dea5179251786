"""Results as words, tables, pictures and the comparison page."""

__all__: list[str] = []
