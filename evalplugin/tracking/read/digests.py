"""Digests of downloaded files, compared with those that were logged."""

from __future__ import annotations

from pathlib import Path

from evalplugin.base.files import file_digest

__all__ = ["check_digest"]


def check_digest(file: Path, logged: str) -> None:
    """Compare the SHA-256 of a file with the one that was logged.

    Raises:
        ValueError: It is another one; the message continues "the artifact ...".
    """
    found = file_digest(file)
    if found != logged:
        size = file.stat().st_size
        raise ValueError(
            f"({size:,} bytes) is not what was logged: its SHA-256 begins with {found[:12]}, not {logged[:12]}"
        )
