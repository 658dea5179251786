"""Inventories of the names of other projects that the documentation refers to."""

from __future__ import annotations

import zlib
from pathlib import Path

__all__ = ["write_inventories"]

_PROJECTS = {
    "python": (
        "https://docs.python.org/3/",
        """
collections.abc.Callable py:class 1 library/collections.abc.html#$ -
collections.abc.Iterator py:class 1 library/collections.abc.html#$ -
collections.abc.Mapping py:class 1 library/collections.abc.html#$ -
collections.abc.Sequence py:class 1 library/collections.abc.html#$ -
bool py:class 1 library/functions.html#$ -
bytes py:class 1 library/stdtypes.html#$ -
dict py:class 1 library/stdtypes.html#$ -
float py:class 1 library/functions.html#$ -
int py:class 1 library/functions.html#$ -
list py:class 1 library/stdtypes.html#$ -
object py:class 1 library/functions.html#$ -
str py:class 1 library/stdtypes.html#$ -
tuple py:class 1 library/stdtypes.html#$ -
type py:class 1 library/functions.html#$ -
pathlib.Path py:class 1 library/pathlib.html#$ -
typing.Any py:data 1 library/typing.html#$ -
typing.Literal py:data 1 library/typing.html#$ -
""",
    ),
    "numpy": (
        "https://numpy.org/doc/stable/",
        """
numpy.ndarray py:class 1 reference/generated/$.html#$ -
numpy.random.Generator py:class 1 reference/random/generator.html#$ -
""",
    ),
    "pandas": (
        "https://pandas.pydata.org/docs/",
        """
pandas.DataFrame py:class 1 reference/api/$.html#$ -
pandas.Series py:class 1 reference/api/$.html#$ -
""",
    ),
}


def write_inventories(folder: Path) -> dict[str, tuple[str, str]]:
    """Write an inventory of each project to a folder, and return the mapping that intersphinx takes."""
    folder.mkdir(parents=True, exist_ok=True)
    mapping = {}
    for name, (url, entries) in _PROJECTS.items():
        file = folder / f"{name}.inv"
        head = f"# Sphinx inventory version 2\n# Project: {name}\n# Version: 0\n# The rest is compressed by zlib.\n"
        file.write_bytes(head.encode() + zlib.compress(entries.lstrip().encode()))
        mapping[name] = (url, str(file))
    return mapping
