"""Log items of bake-offs, and the writer that logs them to MLflow."""
