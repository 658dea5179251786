"""Ranks: the models over several datasets."""
