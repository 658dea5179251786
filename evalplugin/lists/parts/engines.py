"""Engines for scoring in parts: opened with the files that parts are read from."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evalplugin.base.errors import DataError
from evalplugin.base.inputs import fingerprint_of
from evalplugin.config.engines import ENGINES, Engine
from evalplugin.data.files import TableFiles
from evalplugin.execution.engines import Needs, Session
from evalplugin.execution.engines.local import Local
from evalplugin.execution.store import private_folder

__all__ = ["engine_of", "open_session"]

# Of files whose content is compared on all nodes; beyond, only the first of each table is.
_MOST_BYTES = 10 * 2**30


def engine_of(engine: object) -> Engine | None:
    """Return the engine of a name, of a mapping with ``type`` as in a config, or as it is; None: this process.

    Raises:
        EvalpluginError: There is no such engine, or it has no such parameters.
    """
    if isinstance(engine, str):
        engine = {"type": engine}
    if isinstance(engine, Mapping):
        parameters = dict(engine)
        if not isinstance(kind := parameters.pop("type", None), str):
            raise DataError("engine: a mapping names the engine by its key 'type', such as {'type': 'ray'}")
        engine = ENGINES.create(kind, parameters)
    if engine is None or isinstance(engine, Local):
        return None
    if not callable(getattr(engine, "open", None)):
        raise DataError(f"engine must be a name such as 'ray', or a mapping with 'type', not {engine!r}")
    made: Any = engine
    return made  # type: ignore[no-any-return]


@contextmanager
def open_session(
    engine: Engine, tables: Sequence[TableFiles], report: Callable[[str], None], others: Sequence[Path]
) -> Generator[Session]:
    """Yield a session of which every node has the same files: those of the tables, and others.

    Raises:
        EngineError: The engine cannot run calls, or a node lacks a file.
    """
    local = [[file for file in table.files if isinstance(file, Path)] for table in tables]
    if sum(file.stat().st_size for files in local for file in files) > _MOST_BYTES:
        local = [files[:1] for files in local]
    files = [str(file) for some in (*local, others) for file in some]
    inputs = {file: fingerprint_of(file, lambda uri: "") for file in files}
    with private_folder() as folder, engine.open(Needs(folder, inputs=inputs, report=report)) as session:
        yield session
