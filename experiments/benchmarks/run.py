"""Where the time of a bake-off goes: `run configs/knn.yaml --fresh` in an empty folder, stage by stage.

`--cached` measures the same command without `--fresh`, in a folder where everything is cached, and writes no file.

Each run is a process of its own that records what its main thread does, from the start of the interpreter to its end.
A stage that runs inside another one counts for itself alone: a library that is imported while a model is fitted counts
as import. `--against` measures another checkout too, in turn. Writes run.md; the fastest of several runs counts.
"""

from __future__ import annotations

import argparse
import builtins
import importlib
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from checkouts import ROOT, add_against, checkouts_of, environment, machine

HERE = Path(__file__).resolve()
USEFUL = ("data", "split", "fit", "recommend", "score", "compare")
STAGES = ("imports", *USEFUL, "logging", "pictures", "page", "other")
SECONDS, SHARE = 8, 0.6  # the goal: all, and the useful part of it
MISSED = f"""\
The goal is {SECONDS} s, {100 * SHARE:.0f} % of them useful; it is not reached. Another process imports MLflow, and logs
a model while the next one is fitted: "logging" is what the main process makes of the results, and the time it waits.
"""
# First words of the steps that an observer of a bake-off is told about.
STEPS = {
    "read": "data",
    "split": "split",
    "fit": "fit",
    "recommend": "recommend",
    "score": "score",
    "compare": "compare",
    "open": "logging",
    "log": "logging",
}


class Timeline:
    """Seconds by stage; the stage that was entered last has the time."""

    def __init__(self, since: float) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self.running = ["imports"]
        self.changed = since

    def _pass(self) -> None:
        now = time.time()
        self.seconds[self.running[-1]] += now - self.changed
        self.changed = now

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time inside for a stage."""
        self._pass()
        self.running.append(name)
        try:
            yield
        finally:
            self._pass()
            self.running.pop()

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose time counts for a stage."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.running[-1] == name:
                return function(*args, **kwargs)
            with self.stage(name):
                return function(*args, **kwargs)

        return call


def record(started: float, config: str, *options: str) -> dict[str, float]:
    """Return the seconds of each stage of a bake-off in this process, which began at ``started``."""
    timeline = Timeline(started)
    builtins.__import__ = timeline.timed("imports", builtins.__import__)
    importlib.import_module = timeline.timed("imports", importlib.import_module)
    with timeline.stage("other"):
        from evalplugin.cli import main, show
        from evalplugin.comparison.comparison import Comparison
        from evalplugin.execution.observer import Observer
        from evalplugin.tracking.write import contents, tracker

        class Recording(Observer):
            @contextmanager
            def progress(self, label: Any, total: int | None = None) -> Iterator[Callable[[int], None]]:
                stage = STEPS.get(label.split()[0])
                if stage is None:  # the whole of all tasks, whose parts are told too
                    yield lambda done: None
                    return
                with timeline.stage(stage):
                    yield lambda done: None

        show.observer = Recording
        segments: Any = Comparison.__dict__["segments"]  # compared when they are first shown
        segments.func = timeline.timed("compare", segments.func)
        tracker.picture_artifacts = timeline.timed("pictures", tracker.picture_artifacts)
        contents.comparison_page = timeline.timed("page", contents.comparison_page)
        assert main(["run", config, *options], is_program=True) == 0  # another process logs
    return timeline.seconds


def cpu_of_children() -> float:
    """Return the CPU seconds of all processes that this one has waited for, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(checkout: Path, config: Path, *, cached: bool = False) -> tuple[dict[str, float], float]:
    """Return the seconds of each stage of one bake-off by a checkout, in an empty folder, and its CPU seconds.

    ``cached``: of a second bake-off in that folder.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "stages.json")
        for options in ((), ()) if cached else (("--fresh",),):
            cpu, begin = cpu_of_children(), time.time()
            subprocess.run(
                [sys.executable, str(HERE), "--record", str(out), str(begin), str(config), *options],
                cwd=folder,
                env=environment(checkout),
                check=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        total = time.time() - begin
        seconds: dict[str, float] = json.loads(out.read_text())
    seconds["other"] += total - sum(seconds.values())  # what the interpreter does at its end
    return seconds, cpu_of_children() - cpu


def table(measured: dict[str, dict[str, float]], cpu: dict[str, float]) -> str:
    """Return the stages' seconds and shares as Markdown, one pair of columns for each checkout."""
    names = list(measured)
    lines = [
        "| stage | " + " | ".join(f"{name}, s | share" for name in names) + " |",
        "|---|" + "--:|--:|" * len(names),
    ]
    rows = {stage: [stage] for stage in STAGES} | {
        "useful": ["**useful**: data to compare"],
        "all": ["**all**"],
    }
    processors = ["CPU, all processes", *(text for name in names for text in (f"{cpu[name]:.2f}", ""))]
    for seconds in measured.values():
        total = sum(seconds.values())
        values = seconds | {"useful": sum(seconds[stage] for stage in USEFUL), "all": total}
        for stage, row in rows.items():
            row += [f"{values[stage]:.2f}", f"{100 * values[stage] / total:.0f} %"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in [*rows.values(), processors])])


def main() -> None:
    """Measure the checkouts in turn and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "knn.yaml")
    add_against(parser)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cached", action="store_true", help="with everything cached")
    parser.add_argument("--record", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.record:
        out, started, *command = options.record
        Path(out).write_text(json.dumps(record(float(started), *command)))
        return
    checkouts = checkouts_of(options)
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
    cpu = dict.fromkeys(checkouts, math.inf)
    load = os.getloadavg()[0]
    for number in range(options.runs + 1):
        for name, checkout in checkouts.items():
            stages, used = measure(checkout, options.config.resolve(), cached=options.cached)
            print(f"{name}: {sum(stages.values()):.1f} s{'' if number else ', not counted'}", file=sys.stderr)
            if number:  # the first one compiles bytecode and loops, and fills caches
                runs[name].append(stages)
                cpu[name] = min(cpu[name], used)
    best = {name: min(found, key=lambda stages: sum(stages.values())) for name, found in runs.items()}
    if options.cached:
        print(table(best, cpu))
        return
    text = (
        f"# A first bake-off, stage by stage\n\nWall seconds of `run {options.config.name} --fresh` in an empty "
        f"folder, the fastest of {options.runs}; caches of the user and of Python are filled. "
        f"{machine(load)}\n\n{table(best, cpu)}\n"
    )
    seconds = best["this"]
    total, useful = sum(seconds.values()), sum(seconds[stage] for stage in USEFUL)
    if total > SECONDS or useful < SHARE * total:
        text += f"\n{MISSED}"
    HERE.with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
