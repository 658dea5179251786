"""The store: finished steps of bake-offs on disk, and journals of the bake-offs that make them."""

from evalplugin.execution.store.entry import EntryInfo
from evalplugin.execution.store.folder import STORE, Store, StoreView, store_path

__all__ = ["STORE", "EntryInfo", "Store", "StoreView", "store_path"]
