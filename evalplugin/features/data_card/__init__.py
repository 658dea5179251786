"""Data cards: sizes, inequality, ratings, time and splits of datasets, and their drift."""
