"""Errors, parameters, registries, secrets, units and random generators, used by every other package."""

__all__: list[str] = []
