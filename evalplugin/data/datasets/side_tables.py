"""Tables of items and users beside the interactions of a dataset."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evalplugin.base.errors import DataError, KeyPath, Problem
from evalplugin.data.attributes import Attributes, Entity, attributes_from, open_attributes
from evalplugin.data.files import TableFiles
from evalplugin.data.tables import column_problem

__all__ = ["ItemTable", "UserTable"]


@dataclass(frozen=True)
class _SideTable:
    """A table of users or items with an id and any attributes of each."""

    kind: ClassVar[Entity]

    path: Annotated[
        str,
        Field(min_length=1, description="the table, relative to the config, or a URI: .parquet, or else CSV"),
    ]
    columns: Annotated[
        list[str] | None,
        Field(description="names of the attributes to read; null: all columns that no other key names"),
    ] = None
    separator: Annotated[
        str, Field(min_length=1, max_length=1, description="what stands between values of a CSV file")
    ] = ","

    def check(self, base: Path) -> list[Problem]:
        """Return problems if there is no such file, or no such column in it; paths in ``base``."""
        try:
            source = self._open(base)
            names = source.columns
        except DataError as error:
            return [Problem(("path",), str(error))]
        named = self._named | {("columns", number): name for number, name in enumerate(self.columns or ())}
        problems = {path: column_problem(name, names) for path, name in named.items()}
        return [Problem(path, f"{source.name}: {text}") for path, text in problems.items() if text]

    def attributes(self, ids: npt.NDArray[np.generic], base: Path) -> Attributes:
        """Return the attributes of the users or items of the data, in the order of their codes.

        Raises:
            DataError: The file or a column is missing, an id is missing or of another type than those of the data,
                rows with the same id contradict each other, or none is of the data.
        """
        columns = self.columns
        if columns is None:
            columns = [name for name in self._open(base).columns if name not in self._named.values()]
        return self._read(ids, base, columns)

    def _read(
        self, ids: npt.NDArray[np.generic], base: Path, columns: Sequence[str], *, numbers: bool = True
    ) -> Attributes:
        id_column = self._named[self.kind,]
        roles = {"id": id_column, **{f"attribute {number}": name for number, name in enumerate(columns)}}
        source = self._open(base, text=roles)
        is_csv = not source.is_parquet
        return attributes_from(
            source.read(roles), self.kind, id_column, columns, ids, is_csv=is_csv, numbers=numbers
        )

    def _open(self, base: Path, text: Collection[str] = ()) -> TableFiles:
        return open_attributes(base, self.path, separator=self.separator, text=text)

    @property
    def _named(self) -> dict[KeyPath, str]:
        """The columns that are no attributes, by the key that names them."""
        raise NotImplementedError


@dataclass(frozen=True)
class ItemTable(_SideTable):
    """A table of items: their titles, and attributes such as categories and prices."""

    kind = "item"

    item: Annotated[str, Field(min_length=1, description="name of the column of item ids")] = "item"
    title: Annotated[
        str | None,
        Field(min_length=1, description="name of the column of titles, to be shown; null: ids are shown"),
    ] = None

    @property
    def _named(self) -> dict[KeyPath, str]:
        named = {"item": self.item, "title": self.title}
        return {(key,): name for key, name in named.items() if name is not None}

    def titles(
        self, items: npt.NDArray[np.generic], base: Path
    ) -> tuple[npt.NDArray[np.object_] | None, tuple[str, ...]]:
        """Return a title for each item of the data (n_items,), and a note if some have none: their id stands for it.

        Raises:
            DataError: As of ``attributes``.
        """
        if self.title is None:
            return None, ()
        found = self._read(items, base, [self.title], numbers=False)[self.title].tolist()
        untitled = sum(title is None for title in found)
        shown = [
            str(item) if title is None else title for title, item in zip(found, items.tolist(), strict=True)
        ]
        note = f"{untitled} items have no title in {Path(self.path).name}: their ids are shown instead"
        return np.array(shown, dtype=object), (note,) if untitled else ()


@dataclass(frozen=True)
class UserTable(_SideTable):
    """A table of users: attributes such as age and country."""

    kind = "user"

    user: Annotated[str, Field(min_length=1, description="name of the column of user ids")] = "user"

    @property
    def _named(self) -> dict[KeyPath, str]:
        return {("user",): self.user}
