"""A bake-off that is killed at any event, and resumed, has logged what an undisturbed one logs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from bakeoff.test_resume import assert_same_end, write_own

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(os.name != "posix", reason="forks")


def killed_at(
    folder: Path, points: dict[str, tuple[str | None, int, int]], store: Path
) -> dict[str, list[int]]:
    """Return the exit codes by point: of the killed bake-off, and of the resumed one."""
    (folder / "template").mkdir(parents=True)
    write_own(folder / "template")
    shutil.copy(store, folder / "template")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/bakeoff/killing.py"), str(folder), json.dumps(points)],
        capture_output=True, text=True, check=False, timeout=1800, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    codes: dict[str, list[int]] = json.loads(done.stdout.splitlines()[-1])
    return codes


@pytest.mark.slow
def test_bake_off_killed_at_any_event_resumes_to_the_same_result(tmp_path: Path, store: Path) -> None:
    killed_at(tmp_path / "first", {"whole": (None, 0, 1)}, store)
    heard = json.loads((tmp_path / "first" / "whole" / "heard-run.json").read_text())
    seen: Counter[str] = Counter()
    points: dict[str, tuple[str | None, int, int]] = {}
    for event in heard:
        seen[event] += 1
        points[f"point-{len(points):03d}"] = (event, seen[event], 1)
    # On two processors: this is the longest test of all.
    halves = {tmp_path / f"half-{n}": dict([*points.items()][n::2]) for n in range(2)}
    with ThreadPoolExecutor() as pool:
        codes = [*pool.map(partial(killed_at, store=store), halves, halves.values())]
    for (place, half), codes_of_half in zip(halves.items(), codes, strict=True):
        for point, (event, occurrence, _) in half.items():
            assert codes_of_half[point] == [-signal.SIGKILL, 0], (event, occurrence)
            assert_same_end(place / point, tmp_path / "first" / "whole")
