"""The registered datasets."""
