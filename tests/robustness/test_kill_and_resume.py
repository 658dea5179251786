"""A bake-off that is killed at any event, and resumed, has logged what an undisturbed one logs."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from features.resume.test_resume import assert_same_end, kill_and_resume, write_own

pytestmark = pytest.mark.skipif(os.name != "posix", reason="forks")


def killed_at(
    folder: Path, points: dict[str, tuple[str | None, int, int]], store: Path
) -> dict[str, list[int]]:
    """Return the exit codes by point: of the killed bake-off, and of the resumed one."""
    (folder / "template").mkdir(parents=True)
    write_own(folder / "template")
    return kill_and_resume(folder, points, store)


@pytest.mark.slow
def test_bake_off_killed_at_any_event_resumes_to_the_same_result(tmp_path: Path, store: Path) -> None:
    killed_at(tmp_path / "first", {"whole": (None, 0, 1)}, store)
    heard, files = (
        json.loads((tmp_path / "first" / "whole" / f"{name}-run.json").read_text())
        for name in ("heard", "files")
    )
    seen: Counter[str] = Counter()
    points: dict[str, tuple[str | None, int, int]] = {}
    for event, now, before in zip(heard, files, [None, *files[:-1]], strict=True):
        seen[event] += 1
        if now != before:  # otherwise a kill leaves what a kill at the event before leaves
            points[f"point-{len(points):03d}"] = (event, seen[event], 1)
    assert 50 < len(points) < len(heard)
    # On two processors: this is the longest test of all.
    halves = {tmp_path / f"half-{n}": dict([*points.items()][n::2]) for n in range(2)}
    with ThreadPoolExecutor() as pool:
        codes = [*pool.map(partial(killed_at, store=store), halves, halves.values())]
    for (place, half), codes_of_half in zip(halves.items(), codes, strict=True):
        for point, (event, occurrence, _) in half.items():
            assert codes_of_half[point] == [-signal.SIGKILL, 0], (event, occurrence)
            assert_same_end(place / point, tmp_path / "first" / "whole")
