"""Libraries that are imported when first used, so that ``import evalplugin`` and commands like ``list`` are fast."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = [
    "Lazy", "cronsim", "fs", "jinja2", "optuna", "pa", "pc", "pd", "pq", "sparse", "special", "surprise", "yaml",
]  # fmt: skip

if TYPE_CHECKING:
    import cronsim
    import jinja2
    import optuna
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    import surprise
    import yaml
    from pyarrow import fs
    from scipy import sparse, special
else:

    class Lazy:
        """A module that is imported when an attribute is read."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, attribute: str) -> Any:
            return getattr(import_module(self._name), attribute)

        def __reduce__(self) -> tuple[Any, ...]:
            return import_module, (self._name,)

    pa, pc, pq = Lazy("pyarrow"), Lazy("pyarrow.compute"), Lazy("pyarrow.parquet")
    fs, optuna, yaml = Lazy("pyarrow.fs"), Lazy("optuna"), Lazy("yaml")
    pd, sparse, special = Lazy("pandas"), Lazy("scipy.sparse"), Lazy("scipy.special")
    cronsim, jinja2, surprise = Lazy("cronsim"), Lazy("jinja2"), Lazy("surprise")
