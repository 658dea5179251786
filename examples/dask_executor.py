"""An executor on Dask, for ``engine: {type: executor, factory: dask_executor.py:local_dask}``.

``local_dask`` starts worker processes on this machine. For a cluster, return ``DaskExecutor`` around another one, such
as ``dask_jobqueue.SLURMCluster(cores=4, memory="16GB")`` after ``cluster.scale(8)``.
"""

from __future__ import annotations

from concurrent.futures import Executor, Future
from typing import Any

from distributed import Client, LocalCluster


class DaskExecutor(Executor):
    """Dask's executor, which ends its cluster when it is shut down."""

    def __init__(self, cluster: Any) -> None:
        """Connect to the cluster."""
        self.cluster = cluster
        self.client = Client(cluster)
        self.executor = self.client.get_executor(pure=False)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Hand a call to a worker."""
        return self.executor.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the workers, and with them all that they run."""
        self.client.close()
        self.cluster.close()


def local_dask(workers: int = 2) -> DaskExecutor:
    """Return an executor with worker processes on this machine."""
    return DaskExecutor(LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None))
