"""Models of a bake-off whose lists come from MLflow: logged lists, and logged or registered models."""

__all__: list[str] = []
