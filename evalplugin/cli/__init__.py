"""The command line, the only package that prints: results to stdout, diagnostics to stderr."""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 failed, 2 bad config or usage, 130 interrupted."""
    from evalplugin.cli import program  # commands of features import modules of this package

    return program.main(argv)
