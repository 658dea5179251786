"""What commands take before and beside their work, as multiples of `python -c pass`, and in seconds beside a store.

Commands that read no data are multiples of a bare interpreter, those that read data or a tracking store are seconds,
in a folder where `run configs/knn.yaml` has logged a bake-off. All are wall time: the threads that NumPy's BLAS starts
at its import wait for work by spinning, which CPU time would count. The first row is what click, PyYAML, NumPy and
pydantic take, which `validate` imports at least. `--against` measures another checkout too, in turn; the fastest of
several runs counts. Writes start.md.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from checkouts import ROOT, add_against, checkouts_of, environment, machine

HERE = Path(__file__).resolve()
CONFIG = ROOT / "configs" / "knn.yaml"
PROGRAM = ("-m", "evalplugin")
PASS = ("-c", "pass")
ALONE = ("-c", "import click, numpy, yaml; from pydantic import BaseModel, Field, TypeAdapter")
MULTIPLES = {  # the command, and its goal as a multiple
    "click, PyYAML, NumPy and pydantic alone": (ALONE, None),
    "--help": ((*PROGRAM, "--help"), 10),
    "validate": ((*PROGRAM, "validate", str(CONFIG)), 35),
    "list models": ((*PROGRAM, "list", "models"), 20),
    "list metrics": ((*PROGRAM, "list", "metrics"), 20),
    "list checks": ((*PROGRAM, "list", "checks"), None),
    "describe model": ((*PROGRAM, "describe", "model", "surprise.SVD"), 20),
    "schema": ((*PROGRAM, "schema"), None),
}
EXPERIMENT = "knn-vs-popularity"
STORE = ("--tracking-uri", "sqlite:///mlflow.db")
SECONDS = {  # the command, and its goal in seconds
    "import mlflow": (("-c", "import mlflow"), None),
    "data": ((*PROGRAM, "data", str(CONFIG)), 1.5),
    "run --dry-run": ((*PROGRAM, "run", str(CONFIG), "--dry-run"), 1.5),
    "power": ((*PROGRAM, "power", str(CONFIG)), 1.5),
    "compare": ((*PROGRAM, "compare", "--experiment", EXPERIMENT, *STORE), None),
    "history": ((*PROGRAM, "history", "--experiment", EXPERIMENT, *STORE), None),
}


def measure(command: tuple[str, ...], checkout: Path, folder: Path) -> float:
    """Return the seconds from the start of a process to its end."""
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment(checkout),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - begin


def main() -> None:
    """Measure the commands in turn and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_against(parser)
    parser.add_argument("--runs", type=int, default=9)
    options = parser.parse_args()
    checkouts = checkouts_of(options)
    best: dict[tuple[str, str], float] = {}
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as place:
        folders = {name: Path(place, name) for name in checkouts}
        for name, checkout in checkouts.items():
            folders[name].mkdir()
            measure((*PROGRAM, "run", str(CONFIG)), checkout, folders[name])
        for _ in range(options.runs):
            for name, checkout in checkouts.items():
                for row, (command, _) in {"": (PASS, None), **MULTIPLES, **SECONDS}.items():
                    seconds = measure(command, checkout, folders[name])
                    best[name, row] = min(best.get((name, row), math.inf), seconds)
    names = list(checkouts)
    lines = [
        f"| multiples of `python -c pass` | {' | '.join(names)} | goal |",
        "|---|" + "--:|" * (len(names) + 1),
    ]
    for row, (_, most) in MULTIPLES.items():
        texts = [f"{best[name, row] / min(best[each, ''] for each in names):.1f}" for name in names]
        lines.append(f"| {row} | {' | '.join(texts)} | {most or ''} |")
    lines += ["", f"| seconds | {' | '.join(names)} | goal |", "|---|" + "--:|" * (len(names) + 1)]
    for row, (_, longest) in SECONDS.items():
        lines.append(
            f"| {row} | {' | '.join(f'{best[name, row]:.2f}' for name in names)} | {longest or ''} |"
        )
    text = "\n".join(lines) + "\n"
    print(text)
    own = 1000 * min(best[name, ""] for name in names)
    HERE.with_suffix(".md").write_text(
        f"# What commands take\n\nThe fastest of {options.runs}; `python -c pass` takes {own:.0f} ms. "
        f"{machine(load)}\n\n{text}"
    )


if __name__ == "__main__":
    main()
