"""Resuming a bake-off that was cut off, and skipping one that nothing has changed."""
