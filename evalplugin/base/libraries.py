"""Heavy libraries, imported when first used, so that ``import evalplugin``, ``validate`` and ``describe`` are fast.

NumPy is imported plainly everywhere. ``lazy_loader`` is not used: before Python 3.11.9 its modules fail in threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = [
    "Lazy", "arrow_csv", "cronsim", "fs", "imported_names", "jinja2", "optuna", "pa", "pc", "pd", "pq", "requests",
    "sparse", "special", "sqlalchemy", "stats", "surprise", "vl_convert", "yaml",
]  # fmt: skip

if TYPE_CHECKING:
    import cronsim
    import jinja2
    import optuna
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    import requests
    import sqlalchemy
    import surprise
    import vl_convert
    import yaml
    from pyarrow import csv as arrow_csv
    from pyarrow import fs
    from scipy import sparse, special, stats
else:

    class Lazy:
        """A module that is imported when an attribute is read.

        With ``keep``, an attribute is looked up in the module once, as fast loops read many of them.
        """

        def __init__(self, name: str, *, keep: bool = False) -> None:
            self._name, self._keep = name, keep

        def __getattr__(self, attribute: str) -> Any:
            value = getattr(import_module(self._name), attribute)
            if self._keep:
                setattr(self, attribute, value)
            return value

        def __reduce__(self) -> tuple[Any, ...]:
            return import_module, (self._name,)

    pa, pc, pq = Lazy("pyarrow"), Lazy("pyarrow.compute"), Lazy("pyarrow.parquet")
    arrow_csv, fs, pd = Lazy("pyarrow.csv"), Lazy("pyarrow.fs"), Lazy("pandas")
    sparse, special, stats = Lazy("scipy.sparse"), Lazy("scipy.special", keep=True), Lazy("scipy.stats")
    cronsim, jinja2, optuna, requests = Lazy("cronsim"), Lazy("jinja2"), Lazy("optuna"), Lazy("requests")
    sqlalchemy, surprise = Lazy("sqlalchemy"), Lazy("surprise")
    vl_convert, yaml = Lazy("vl_convert"), Lazy("yaml")


def imported_names(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` of a package whose names are imported when they are used.

    Args:
        package: The package.
        modules: Modules, each with the names that the package has from it.
    """
    module_of = {name: module for module, names in modules.items() for name in names}

    def look_up(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(module_of[name]), name)

    return look_up
