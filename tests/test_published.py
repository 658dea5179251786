"""Published tables of ``experiments/published`` come out again, on the data of the papers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

FOLDER = Path(__file__).parents[1] / "experiments" / "published"
HOME = Path(os.environ.get("EVALPLUGIN_DATA_HOME", "nowhere"))
TABLES = sorted({file.stem for file in FOLDER.glob("*.yaml")} - {"bars-gowalla-m1-ease"})  # 7 GB, ten minutes


def rows(text: str) -> list[list[str]]:
    """Return the cells of all rows of Markdown tables."""
    return [re.split(r" *\| *", line.strip("| ")) for line in text.splitlines() if line.startswith("| ")][2:]


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_documented_values_come_out(name: str, tmp_path: Path) -> None:
    data = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())["data"]
    if not all((HOME / "published" / entry["file"]).exists() for entry in data):
        pytest.skip("EVALPLUGIN_DATA_HOME is not set, or lacks the files of the table")
    command = [sys.executable, FOLDER / "published.py", name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    documented = re.split("(?m)^(?=## )", (FOLDER / "values.md").read_text())
    [section] = [part for part in documented if part.startswith(f"## {name}\n")]
    measured = rows(done.stdout)
    assert [row[:3] for row in measured] == [row[:3] for row in rows(section)]
    for now, then in zip(measured, rows(section), strict=True):
        # Another processor may round the last printed digit otherwise.
        last_digit = 10.0 ** -len(then[3].partition(".")[2])
        assert float(now[3]) == pytest.approx(float(then[3]), abs=1.5 * last_digit)
