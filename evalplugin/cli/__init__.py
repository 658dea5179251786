"""The command line: the only place that prints, with ``show``. Data goes to stdout, talk to stderr."""

from evalplugin.cli.program import main, script

__all__ = ["main", "script"]
