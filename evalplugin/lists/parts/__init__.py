"""Parquet files of lists and truth, scored in parts of the users: in memory, out of core, or on an engine."""
