"""Fingerprints of plain values."""

from __future__ import annotations

import hashlib
import json

__all__ = ["fingerprint"]


def fingerprint(value: object) -> str:
    """Return 16 hexadecimal digits that depend on a JSON value alone, not on the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
