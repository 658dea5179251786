"""Errors, secrets, text, numbers, arrays, random generators, processes and signals, used by every other package."""
