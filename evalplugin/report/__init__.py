"""Reports: texts, tables, figures and the comparison page."""

__all__: list[str] = []
