"""Off-policy diagnostics: weights, clip bounds and doubts of values by a log, and a sweep over assumed propensities."""
