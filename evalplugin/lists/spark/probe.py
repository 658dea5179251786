"""Check of Spark's workers, before any job: their Python, evalplugin, and metrics of plugins."""

from __future__ import annotations

import json
import pickle
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from evalplugin._version import __version__
from evalplugin.base.errors import EngineError
from evalplugin.metrics import MetricSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check_workers", "is_connect"]


def is_connect(session: SparkSession) -> bool:
    """Return whether a session is one of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def check_workers(session: SparkSession, specs: Sequence[MetricSpec]) -> None:
    """Check that a worker has this version of evalplugin, and the metrics of plugins.

    Raises:
        EngineError: It has not, or Spark cannot start its Python.
    """
    # Of the session's own kind, as a process may have both.
    functions = import_module(f"pyspark.sql.{'connect.' if is_connect(session) else ''}functions")
    plugins = {spec.name: pickle.dumps(spec) for spec in specs if not spec.is_own}

    # It is sent by value and uses nothing of evalplugin, which a worker may lack.
    def look(_: int) -> str:
        import json
        import pickle
        import sys

        found = {"python": f"{sys.executable}, {sys.version.split()[0]}", "version": None, "metric": None}
        try:
            from evalplugin._version import __version__

            found["version"] = __version__
            import evalplugin.lists.spark.buckets  # noqa: F401 - with all that it needs

            for name, plugin in plugins.items():
                found["metric"] = name
                pickle.loads(plugin)
        except Exception as error:  # noqa: BLE001 - all that may be wrong with another environment
            found["problem"] = f"{type(error).__name__}: {error}"
        return json.dumps(found)

    try:
        answer = session.range(1).select(functions.udf(look, "string", useArrow=False)("id")).collect()[0][0]
    except Exception as error:  # of Spark, Java or gRPC, by where it occurs
        causes = re.findall(r"^.*(?:Exception|Error): (\S.*)$", str(error), re.MULTILINE)
        cause = causes[0] if causes else str(error).partition("\n")[0]
        raise EngineError(f"Spark cannot run Python on its workers: {cause}") from error
    found = json.loads(answer)
    where, version = f"the Python of Spark's workers ({found['python']})", found["version"]
    problem, metric = found.get("problem"), found["metric"]
    if version not in (None, __version__):
        raise EngineError(
            f"{where} has evalplugin {version}, but this process has {__version__}: install one version in both"
        )
    if problem and metric is None:
        raise EngineError(
            f"{where} cannot import evalplugin ({problem}), and this process has {__version__}: pip install "
            f"'evalplugin=={__version__}' there, or let PYSPARK_PYTHON name one that has it, such as {sys.executable}"
        )
    if problem:
        raise EngineError(f"metric {metric}: {where} cannot load it ({problem}): install its package there")
