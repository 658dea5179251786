"""What benchmarks of several checkouts share: their option, the environment of processes, the machine in a table."""

from __future__ import annotations

import argparse
import os
import platform
from pathlib import Path

__all__ = ["ROOT", "add_against", "checkouts_of", "environment", "machine"]

ROOT = Path(__file__).resolve().parents[2]


def add_against(parser: argparse.ArgumentParser) -> None:
    """Add the option that names another checkout."""
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="another checkout, measured in turn")


def checkouts_of(options: argparse.Namespace) -> dict[str, Path]:
    """Return the checkouts to measure, the other one first."""
    before = {} if options.against is None else {"before": options.against.resolve()}
    return before | {"this": ROOT}


def environment(checkout: Path) -> dict[str, str]:
    """Return the environment of a process that uses a checkout, with its bytecode."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPATH": str(checkout)}


def machine(load: float) -> str:
    """Return a sentence on the machine; ``load`` is its load average before the first run."""
    return (
        f"{os.cpu_count()} processors with a load of {load:.1f} from other programs, "
        f"Python {platform.python_version()}, {platform.system()}."
    )
