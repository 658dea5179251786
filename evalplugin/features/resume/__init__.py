"""Resuming the newest bake-off that was cut off, and skipping one whose data, config and code have not changed."""
