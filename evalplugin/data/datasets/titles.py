"""Titles of items from a table of items."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evalplugin.base.errors import DataError, Problem
from evalplugin.data.files import TableFiles, find_files
from evalplugin.data.formats import CsvFormat, ParquetFormat
from evalplugin.data.reading import readable
from evalplugin.data.tables import column_problem

__all__ = ["Titles"]


@dataclass(frozen=True)
class Titles:
    """A table of items with an id and a title each: CSV (.gz, .bz2 too) or Parquet."""

    file: Annotated[str, Field(min_length=1, description="the table, relative to the config")]
    item: Annotated[str, Field(min_length=1, description="name of the column of item ids")] = "item"
    title: Annotated[str, Field(min_length=1, description="name of the column of titles")] = "title"
    separator: Annotated[
        str, Field(min_length=1, max_length=1, description="what stands between values of a CSV file")
    ] = ","

    def check(self, base: Path) -> list[Problem]:
        """Return problems if there is no such file, or no such column in it; paths in ``base``."""
        try:
            source = self._source(base)
            names = source.columns
        except DataError as error:
            return [Problem(("file",), str(error))]
        found = {role: column_problem(getattr(self, role), names) for role in ("item", "title")}
        return [Problem((role,), f"{source.name}: {problem}") for role, problem in found.items() if problem]

    def of(
        self, items: npt.NDArray[np.generic], base: Path
    ) -> tuple[npt.NDArray[np.object_], tuple[str, ...]]:
        """Return a title for each item of the data (n_items,), and a note if some have none: their id stands for it.

        Raises:
            DataError: The file or a column is missing, an id is missing, of another type than those of the data, or
                twice in the table, or none of the data's items is there.
        """
        source = self._source(base)
        table = source.read({"item": self.item, "title": self.title})
        with readable(f"{table.name}: column {self.item!r}"):
            ids = table.arrow(self.item).to_pylist()
        with readable(f"{table.name}: column {self.title!r}"):
            titles = table.arrow(self.title).cast("string").to_pylist()
        if not source.is_parquet and items.dtype != object:
            ids = [int(one) if one is not None and one.strip().isdecimal() else one for one in ids]
        kind: type = str if items.dtype == object else int
        row_of: dict[object, int] = {}
        for row, one in enumerate(ids):
            if not isinstance(one, kind):
                words = "text" if kind is str else "whole numbers"
                rule = (
                    f"item ids must be {words}, as those of the data are (such as {items[:1].tolist()[0]!r})"
                )
                table.refuse(self.item, row, rule, missing=one is None)
            if (before := row_of.setdefault(one, row)) != row:
                raise DataError(
                    f"{table.name}: item {one!r} is there twice, in {table.row_name(before)} and "
                    f"{table.row_name(row)}: give each item one title"
                )
        rows = [row_of.get(item) for item in items.tolist()]
        found = [None if row is None else titles[row] for row in rows]
        if all(row is None for row in rows):
            here, there = (", ".join(map(repr, some[:3])) for some in (list(row_of), items.tolist()))
            raise DataError(
                f"{table.name}: none of the items of the data is there: column {self.item!r} has ids such as {here}, "
                f"the data such as {there}"
            )
        untitled = sum(not title for title in found)
        shown = [title or str(item) for title, item in zip(found, items.tolist(), strict=True)]
        note = f"{untitled} items have no title in {source.files[0].name}: their ids are shown instead"
        return np.array(shown, dtype=object), (note,) if untitled else ()

    def _source(self, base: Path) -> TableFiles:
        files = find_files(base, self.file)
        if len(files) > 1:
            raise DataError(f"{self.file} means {len(files)} files; name one")
        parquet = files[0].suffix.lower() in (".parquet", ".pq")
        csv = CsvFormat(self.separator, text=("item", "title"))
        source = TableFiles(str(files[0]), tuple(files), ParquetFormat() if parquet else csv)
        source.check_columns()
        return source
