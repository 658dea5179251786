"""The store: cached steps on disk, and the journals of bake-offs in progress."""

from evalplugin.execution.store.entry import EntryInfo
from evalplugin.execution.store.folder import STORE, Store, StoreView, store_path

__all__ = ["STORE", "EntryInfo", "Store", "StoreView", "store_path"]
