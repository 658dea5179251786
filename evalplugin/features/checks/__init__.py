"""Checks with codes: known defects of evaluations, looked for in the config, the data and the results."""
