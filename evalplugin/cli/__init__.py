"""The command line, the only package that prints: results to stdout, diagnostics to stderr."""

from evalplugin.cli.program import main

__all__ = ["main"]
