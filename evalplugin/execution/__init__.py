"""Execution of a config: data, folds, tasks, worker processes, and the store of finished steps."""
