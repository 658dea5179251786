"""Text without the credentials it holds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["redact", "redact_values"]

_HIDDEN = "***"
# Passwords may hold "/" and "@"; but in http://host:8080/a@b the part behind the colon is a port.
_USERINFO = re.compile(r"(?<=://)(?:[^\s/:@'\"]*:(?!\d+/)[^\s'\"]*|[^\s/?#'\"]+)@")
_QUERY = re.compile(
    r"(?i)(?<=[?&;])((?:password|passwd|pwd|token|secret|api_?key|access_?key|sig|signature|credential)=)[^&\s'\"]+"
)
_SECRET_KEY = (
    r"(?:[\w.-]*(?:password|passwd|secret|api_?key|access_?key|auth_?token|access_?token|credentials?))"
)
_ASSIGNED = re.compile(
    rf"(?im)(\b{_SECRET_KEY}\b['\"]?[ \t]*[:=][ \t]*)(\"[^\"\n]*\"|'[^'\n]*'|(?![\[{{\"'|>\s])[^\s,}}\]#]+)"
)


def redact(text: str) -> str:
    """Return the text with ``***`` in place of users and passwords in URIs and of values of keys like password."""
    text = _USERINFO.sub(f"{_HIDDEN}@", text)
    text = _QUERY.sub(rf"\1{_HIDDEN}", text)
    return _ASSIGNED.sub(rf"\1{_HIDDEN}", text)


def redact_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested values with every credential hidden, those under keys like ``password`` included."""
    return {
        key: _HIDDEN
        if re.fullmatch(f"(?i){_SECRET_KEY}", str(key))
        and value is not None
        and not isinstance(value, Mapping)
        else _redact_value(value)
        for key, value in values.items()
    }


def _redact_value(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return redact_values(value)
    if isinstance(value, Sequence):
        return [_redact_value(v) for v in value]
    return value
