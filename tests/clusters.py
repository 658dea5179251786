"""Real engines for tests: Ray nodes and Spark sessions on this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

__all__ = ["OBJECT_STORE", "RAY_WARNINGS", "ray_nodes", "spark_session"]

# Of Ray's and Dask's own modules, and of what they leave to the collector.
RAY_WARNINGS = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning",
    "ignore::FutureWarning",
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)
OBJECT_STORE = 200_000_000  # bytes of each node's object store


@contextmanager
def ray_nodes(nodes: int = 2) -> Iterator[Any]:
    """Yield a Ray cluster of nodes with one CPU each."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "object_store_memory": OBJECT_STORE, "include_dashboard": False},
    )
    try:
        for _ in range(nodes - 1):
            cluster.add_node(num_cpus=1, object_store_memory=OBJECT_STORE)
        yield cluster
    finally:
        cluster.shutdown()


@contextmanager
def spark_session(**settings: str) -> Iterator[Any]:
    """Yield a session of two cores; ``settings`` are Spark's, with ``_`` for dots."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]")
    own = {
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
    }
    for name, value in {**own, **{name.replace("_", "."): value for name, value in settings.items()}}.items():
        builder = builder.config(name, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = builder.getOrCreate()
        try:
            yield session
        finally:
            session.stop()
