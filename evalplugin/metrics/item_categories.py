"""Categories of items, read from an attribute such as ``Action|Comedy``, and their shares in histories and lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Codes, Floats, Ints, row_entries
from evalplugin.base.errors import DataError
from evalplugin.data.interactions import Interactions
from evalplugin.data.tables import column_problem
from evalplugin.models.selection import NO_ITEM

__all__ = ["CategoryShares", "ItemCategories", "check_attribute"]

_SEPARATOR = "|"  # between the categories of one item


def check_attribute(attribute: str, items: Mapping[str, npt.NDArray[np.generic]]) -> None:
    """Check that items have an attribute.

    Raises:
        DataError: They have none of the name; the message has the nearest one.
    """
    if not items:
        raise DataError(
            f"needs the attribute {attribute!r} of the items, and these have no attributes: name a table of them in "
            f"the dataset, such as items: {{path: items.csv}}; MovieLens has its genres with genres: true"
        )
    if problem := column_problem(attribute, list(items)):
        raise DataError(f"the items of the dataset: {problem}")


@dataclass(frozen=True, eq=False)
class ItemCategories:
    """The categories of each item, as compressed sparse rows. An item counts as one, divided among its categories."""

    n: int  # number of different categories
    indptr: Ints  # (n_items + 1,) where each item's categories start
    category: Ints  # (c,) codes below n
    weight: Floats  # (c,) 1 / number of the item's categories

    @classmethod
    def of(cls, values: npt.NDArray[np.generic]) -> ItemCategories:
        """Return the categories of items (n_items,) from an attribute.

        A text is divided at ``|``, where empty and repeated parts do not count; a number is a category of its own. An
        item whose value is unknown (None, NaN) has no category.
        """
        import pandas as pd

        code, distinct = pd.factorize(values)  # -1: unknown
        parts = [_parts(value) for value in distinct.tolist()]
        names = sorted({part for some in parts for part in some})
        code_of = {name: number for number, name in enumerate(names)}
        flat = np.array([code_of[part] for some in parts for part in some], dtype=np.int64)
        count = np.array([*map(len, parts), 0], dtype=np.int64)  # the last one is that of unknown values
        start = np.concatenate([[0], np.cumsum(count)])
        entries, item = row_entries(start, np.where(code < 0, len(parts), code))
        indptr = np.concatenate([[0], np.cumsum(count[code])])
        return cls(len(names), indptr, flat[entries], 1.0 / count[code][item])

    def of_lists(self, item: Codes) -> tuple[Ints, Ints, Floats]:
        """Return user (position), category and weight of every category of every listed item, by user and then rank.

        ``item`` (B, K), NO_ITEM behind the end.
        """
        row, rank = np.nonzero(item != NO_ITEM)
        entries, listed = row_entries(self.indptr, item[row, rank])
        return row[listed], self.category[entries], self.weight[entries]

    def n_items_of_lists(self, item: Codes) -> Ints:
        """Return the number of items with a category in each list: int64 (B,)."""
        with_category = np.append(np.diff(self.indptr) > 0, False)  # NO_ITEM is the last
        n_items: Ints = np.count_nonzero(with_category[item], axis=1)
        return n_items


def _parts(value: object) -> list[str]:
    if not isinstance(value, str):
        return [repr(value)]
    return list(dict.fromkeys(part.strip() for part in value.split(_SEPARATOR) if part.strip()))


@dataclass(frozen=True, eq=False)
class CategoryShares:
    """How each user's history divides into categories, as compressed sparse rows; categories ascend."""

    indptr: Ints  # (n_users + 1,)
    category: Ints  # (s,)
    share: Floats  # (s,) above 0; of each user with a categorised item they add up to 1

    @classmethod
    def of(cls, data: Interactions, categories: ItemCategories) -> CategoryShares:
        """Return the shares of all users: every item with a category weighs the same, whatever its rating."""
        from scipy.sparse import csr_array

        rows = data.rows
        has = (np.ones(len(rows.item)), rows.item, rows.indptr)
        shape = (data.n_items, categories.n)
        weights = csr_array((categories.weight, categories.category, categories.indptr), shape=shape)
        table: csr_array = csr_array(has, shape=(data.n_users, data.n_items)) @ weights  # type: ignore[assignment]
        table.sort_indices()
        categorised = (np.diff(categories.indptr) > 0)[rows.item]
        owner = np.repeat(np.arange(data.n_users), rows.counts)
        n_items = np.bincount(owner[categorised], minlength=data.n_users)
        indptr = table.indptr.astype(np.int64)
        share = table.data / np.repeat(n_items, np.diff(indptr))
        return cls(indptr, table.indices.astype(np.int64), share)
