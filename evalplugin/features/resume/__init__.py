"""Resuming the newest bake-off that was interrupted, and skipping one whose inputs have not changed."""
