"""``${NAME}`` in a config: values that only the environment holds, filled in where they are used and kept secret."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from evalplugin.base.errors import DataError
from evalplugin.base.secrets import register_secret

__all__ = ["fill", "missing_in", "names_in"]

_PLACEHOLDER = re.compile(r"\$\{(\w+)\}")


def names_in(*texts: str) -> list[str]:
    """Return the names of the environment variables that texts ask for, each once, in their order."""
    return list(dict.fromkeys(name for text in texts for name in _PLACEHOLDER.findall(text)))


def missing_in(*texts: str) -> list[str]:
    """Return the names of those that are not set, or empty."""
    return [name for name in names_in(*texts) if not os.environ.get(name)]


def fill(texts: Sequence[str], *, place: str) -> list[str]:
    """Return texts with every ``${NAME}`` replaced; the values are hidden from now on in all that is redacted.

    Nothing that is filled in is ever stored: a config keeps its placeholders. ``place`` is for the message.

    Raises:
        DataError: A variable is not set, or is empty.
    """
    if missing := missing_in(*texts):
        several = "environment variables" if len(missing) > 1 else "environment variable"
        raise DataError(f"{place}: {several} not set: {', '.join(missing)}")
    filled = []
    for text in texts:
        names = names_in(text)
        for name in names:
            register_secret(os.environ[name])
        filled.append(_PLACEHOLDER.sub(lambda match: os.environ[match[1]], text))
        if names:
            register_secret(filled[-1])
    return filled
