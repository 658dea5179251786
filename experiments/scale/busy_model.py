"""A model for studies of engines: its fit takes a fixed time of the processor, and notes where and when it ran."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import evalplugin

# On each node; no parameter, as parameters name the stream of random numbers.
NOTES = Path(tempfile.gettempdir()) / "evalplugin-ray-nodes"


@evalplugin.model("busy")
@dataclass
class Busy:
    """Random scores, after ``seconds`` of work of the processor."""

    number: int
    seconds: float

    _scores: object = field(default=None, init=False, repr=False)

    def fit(self, train, rng):  # noqa: ANN001, ANN201, D102
        Path(NOTES, f"start-{self.number}-{os.getpid()}").touch()
        until = time.process_time() + self.seconds
        work = np.full((200, 200), 1 / 200)
        while time.process_time() < until:
            work = work @ work
        self._scores = rng.random((train.n_users, train.n_items))
        Path(NOTES, f"end-{self.number}-{os.getpid()}").write_text(
            f"{_peak_mb(os.getpid())} {_peak_mb(os.getppid())}"
        )

    def scores(self, users):  # noqa: ANN001, ANN201, D102
        return self._scores[users]


def _peak_mb(pid: int) -> int:
    """Return the peak resident memory of a process in 2**20 bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024
