"""Compiled loops that repeat the arithmetic of scikit-surprise; importing one of these modules costs numba's import.

All of them are compiled when their module is imported, once on a machine: the result is cached on disk. None reorders
a sum or fuses a product with one, so a loop that adds in Surprise's order returns Surprise's bits.
"""

from __future__ import annotations

__all__: list[str] = []
