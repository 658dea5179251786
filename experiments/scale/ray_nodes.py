"""Eight equal tasks on one Ray node, on two, and with a node that is killed: seconds, memory, and whether bits differ.

Each task takes ten seconds of the processor; nodes are raylets on this machine with one CPU each. "one worker" is one
process at a time without Ray. The killed node goes when its second task is half done, and is not replaced.

    python experiments/scale/ray_nodes.py [--seconds 10] [--tasks 8]
"""

from __future__ import annotations

import argparse
import csv
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

from evalplugin.execution.engines import Needs
from evalplugin.execution.engines.local import Processes
from evalplugin.execution.engines.ray import Ray
from evalplugin.execution.executor import task_executor
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import jobs_of, prepare
from evalplugin.execution.tasks import Task, TaskResult
from evalplugin.features.config import load

HERE = Path(__file__).parent
PLUGIN = HERE / "busy_model.py"
STORE = 200_000_000  # bytes of each node's object store
Row = dict[str, Any]
Opened = Callable[[Needs], AbstractContextManager[Any]]


def tasks_of(n: int, seconds: float) -> list[tuple[int, str, Task]]:
    """Return equal tasks on one fold."""
    config = load(
        {
            "experiment": "scale",
            "plugins": [str(PLUGIN)],
            "datasets": [{"type": "synthetic", "n_users": 2000, "n_items": 500, "n_interactions": 100_000}],
            "split": {"type": "last_n", "n": 5},
            "metrics": ["ndcg@10", "recall@10", "coverage@10"],
            "segments": [],
            "models": [
                {
                    "name": f"busy {number}",
                    "type": "busy",
                    "params": {"number": number, "seconds": seconds},
                }
                for number in range(n)
            ],
        }
    )
    jobs = jobs_of(config, prepare(config, None, Observer()))
    return [(number, job.model.name, job.tasks[0]) for number, job in enumerate(jobs)]


@contextmanager
def cluster_of(nodes: int) -> Iterator[Any]:
    """Yield a Ray cluster on this machine, of nodes with one CPU each."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(nodes - 1):
            cluster.add_node(num_cpus=1, object_store_memory=STORE)
        yield cluster
    finally:
        cluster.shutdown()


def run(session: Any, tasks: list[tuple[int, str, Task]]) -> tuple[float, dict[int, bytes]]:
    """Return the seconds of all tasks, and the bits of their results."""
    started = time.perf_counter()
    found = dict(task_executor(session, Observer())(tasks))
    seconds = time.perf_counter() - started
    return seconds, {number: _bits(result) for number, result in found.items()}


def _bits(result: Any) -> bytes:
    assert isinstance(result, TaskResult), result
    scores, top_n = result.per_user, result.lists.top_n
    means = repr((scores.means, scores.overall, scores.at_k)).encode()
    return scores.values.tobytes() + top_n.item.tobytes() + top_n.score.tobytes() + means


def measured(
    setup: str,
    nodes: int,
    given: argparse.Namespace,
    opened: Opened,
    lose: Callable[[Path], None] | None = None,
) -> tuple[Row, dict[int, bytes]]:
    """Run the tasks in one setup; ``lose`` is called beside them with the folder of their notes."""
    with TemporaryDirectory() as folder:
        notes = Path(gettempdir()) / "evalplugin-ray-nodes"
        shutil.rmtree(notes, ignore_errors=True)
        notes.mkdir()
        tasks = tasks_of(given.tasks, given.seconds)
        started = time.perf_counter()
        with opened(Needs(Path(folder), plugins=[PLUGIN], workers=1 if nodes == 0 else None)) as session:
            opening = time.perf_counter() - started
            if lose is not None:
                threading.Thread(target=lose, args=(notes,), daemon=True).start()
            seconds, bits = run(session, tasks)
        ends = [file.read_text().split() for file in notes.glob("end-*")]
        row = {
            "setup": setup,
            "nodes": max(1, nodes),
            "tasks": given.tasks,
            "seconds": round(seconds, 1),
            "opening_seconds": round(opening, 1),
            "repeated": len(list(notes.glob("start-*"))) - given.tasks,
            "worker_mb": max(int(child) for child, _ in ends),
            "starter_mb": max(int(parent) for _, parent in ends),
        }
        shutil.rmtree(notes)
        print(row, flush=True)
        return row, bits


def main() -> None:
    """Run the setups and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each task")
    parser.add_argument("--tasks", type=int, default=8)
    given = parser.parse_args()

    found = [measured("one worker", 0, given, lambda needs: closing(Processes(needs)))]
    for setup, nodes in (("one node", 1), ("two nodes", 2)):
        with cluster_of(nodes) as cluster:
            found.append(measured(setup, nodes, given, Ray(address=cluster.address).open))
    with cluster_of(2) as cluster:

        def lose(notes: Path) -> None:
            while len(list(notes.glob("end-*"))) < 2 or len(list(notes.glob("start-*"))) < 4:
                time.sleep(0.1)
            time.sleep(given.seconds / 2)
            cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)

        found.append(measured("a node killed", 2, given, Ray(address=cluster.address).open, lose))

    first_row, first_bits = found[0]
    rows = []
    for row, bits in found:
        ratio = round(first_row["seconds"] / row["seconds"], 2)
        rows.append({**row, "ratio": ratio, "identical": "yes" if bits == first_bits else "no"})
    folder = HERE / "results"
    folder.mkdir(exist_ok=True)
    with (folder / "ray_nodes.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(map(str, row.values())) for row in rows)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    (folder / "ray_nodes.md").write_text(f"{table}\n")
    print(table)


if __name__ == "__main__":
    main()
