"""A cache in the user's folder of content that takes seconds to make, such as the page's charts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from evalplugin.files.outputs import written_whole


def cached(name: str, make: Callable[[], bytes]) -> bytes:
    """Return the content of a file of the user's cache folder; made, and put there, if it is missing.

    Args:
        name: Name of the file, which must depend on all that decides the content.
        make: Makes the content.
    """
    from platformdirs import user_cache_path

    file = user_cache_path("evalplugin", appauthor=False) / name
    with suppress(OSError):
        return file.read_bytes()
    content = make()
    with suppress(OSError):  # no folder to write to: it is made each time
        file.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(file) as out:
            out.write(content)
    return content
