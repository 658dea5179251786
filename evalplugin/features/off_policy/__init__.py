"""What a log of decisions can tell of policies: weights, bounds, doubts, and a sweep over assumed propensities."""
