"""Writing bake-offs to MLflow, reading them back, and registered models."""
