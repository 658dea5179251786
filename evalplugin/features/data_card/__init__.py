"""Data cards: sizes, inequality, ratings, time, splits of datasets."""
