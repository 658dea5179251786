"""Make the peers' environments, one each: ``python environments.py [--home FOLDER] [NAME ...]``.

Libraries pin conflicting versions, so each has its own. A library that does not install is reported and left out.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import venv
from pathlib import Path

__all__ = ["HOME", "PEERS", "make", "python_of"]

HOME = Path(__file__).resolve().parent / ".peers"
PEERS: dict[str, list[str]] = {
    "hand": ["pyarrow", "implicit", "scikit-learn", "scikit-surprise", "pandas"],
    "ranx": ["ranx", "pandas<3", "pyarrow"],
    "pytrec_eval": ["pytrec-eval-terrier", "pandas", "pyarrow"],
    "rectools": ["rectools", "pyarrow<22"],
    "replay": ["replay-rec", "polars", "pyarrow"],
    "recommenders": ["recommenders", "pyarrow"],
    "lenskit": ["lenskit", "pyarrow"],
    "mlflow": ["mlflow", "pandas", "pyarrow"],
    "duckdb": ["duckdb"],
}


def python_of(name: str, home: Path = HOME) -> Path:
    """Return the interpreter of a peer's environment, which may not exist."""
    return home / name / "bin" / "python"


def make(name: str, home: Path = HOME) -> str | None:
    """Make one environment unless it exists; return None, or the last line of the error."""
    python = python_of(name, home)
    if python.exists():
        return None
    venv.create(home / name, with_pip=True)
    done = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--prefer-binary", *PEERS[name]],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        shutil.rmtree(home / name)
        return (done.stderr.strip().splitlines() or ["pip printed no error"])[-1]
    return None


def main() -> int:
    """Make the requested environments; return 1 if one could not be made."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(PEERS), metavar="NAME")
    parser.add_argument("--home", type=Path, default=HOME)
    args = parser.parse_args()
    failed = False
    for name in args.names:
        problem = make(name, args.home)
        print(f"{name}: {'ready' if problem is None else problem}", flush=True)
        failed = failed or problem is not None
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
