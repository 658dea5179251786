"""Placeholders in a config: ``${NAME}`` is replaced by an environment variable where it is used, and stays secret."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from evalplugin.base.errors import DataError
from evalplugin.base.secrets import register_secret

_PLACEHOLDER = re.compile(r"\$\{(\w+)\}")


def variables_in(*texts: str) -> list[str]:
    """Return the environment variables that texts name, each once, in their order."""
    return list(dict.fromkeys(name for text in texts for name in _PLACEHOLDER.findall(text)))


def unset_variables(*texts: str) -> list[str]:
    """Return the environment variables that texts name and that are unset or empty."""
    return [name for name in variables_in(*texts) if not os.environ.get(name)]


def unset_problem(*texts: str) -> str | None:
    """Return the message that variables which texts name are unset or empty; None if there are none."""
    missing = unset_variables(*texts)
    return (
        f"environment variable{'s' * (len(missing) > 1)} not set: {', '.join(missing)}" if missing else None
    )


def filled(text: str) -> str:
    """Return a text with every ``${NAME}`` replaced by its variable, which must be set."""
    return _PLACEHOLDER.sub(lambda match: os.environ[match[1]], text)


def fill_placeholders(texts: Sequence[str], *, key: str) -> list[str]:
    """Return texts with every ``${NAME}`` replaced; the values are redacted from now on.

    They are never stored: a logged config has the placeholders. ``key`` is the config's key, for the message.

    Raises:
        DataError: A variable is not set, or is empty.
    """
    if problem := unset_problem(*texts):
        raise DataError(f"{key}: {problem}")
    for text in texts:
        names = variables_in(text)
        for name in names:
            register_secret(os.environ[name])
        if names:
            register_secret(filled(text))
    return [filled(text) for text in texts]
