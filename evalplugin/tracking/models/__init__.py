"""Models of a bake-off whose lists come from MLflow: logged lists, and logged or registered models."""
