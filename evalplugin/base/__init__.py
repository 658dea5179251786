"""Errors, parameters, registries, secrets, units, random generators: what every other package may use."""

__all__: list[str] = []
