"""A stand-in for the Hugging Face Hub: a file system in memory that fsspec opens for ``hf://``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.memory import MemoryFileSystem

from evalplugin.files import stores

__all__ = ["FakeHub", "ServerError", "fake_hub"]


class ServerError(Exception):
    """An error of the Hub's client, which has no class in common with others."""


class FakeHub(MemoryFileSystem):
    """Repositories in memory; like the Hub's file system, it knows no list of all repositories."""

    protocol = "hf"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    is_down = False

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.removeprefix("hf://"))

    def info(self, path: str, **options: Any) -> Any:
        """Return what is known of a file or folder."""
        if FakeHub.is_down:
            raise ServerError("[Errno 111] Connection refused")
        if self._strip_protocol(path) in ("/datasets", "/models"):
            raise NotImplementedError("Access to repositories lists is not implemented.")
        return super().info(path, **options)


def fake_hub(files: Mapping[str, bytes]) -> type[FakeHub]:
    """Open ``hf://`` as a Hub that has these files, by path, such as ``datasets/owner/name/ratings.csv``."""
    FakeHub.store.clear()
    fsspec.register_implementation("hf", FakeHub, clobber=True)
    hub = FakeHub(skip_instance_cache=True)
    for path, content in files.items():
        hub.pipe(path, content)
    stores._opened.cache_clear()
    return FakeHub
