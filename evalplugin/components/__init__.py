"""Components that a config names: their registries, and their parameters."""

__all__: list[str] = []
