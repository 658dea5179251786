"""Hashes of plain values and of files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path


def fingerprint(value: object) -> str:
    """Return 16 hexadecimal digits that depend on a JSON value alone, not on the order of its keys."""
    return digest(value)[:16]


def digest(value: object) -> str:
    """Return all 64 hexadecimal digits of the SHA-256 hash of a JSON value; see ``fingerprint``."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def file_digest(path: str | Path) -> str:
    """Return the 64 hexadecimal digits of the SHA-256 of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
