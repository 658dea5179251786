"""Components that a config names: their registries, and their parameters."""
