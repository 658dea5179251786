r"""Text from outside, made safe to show: control characters are written as escapes such as ``\u001b``.

What people read is escaped: in the terminal, on pages, in notebooks, Markdown and LaTeX. What programs read is not:
CSV, Parquet and JSON files, and values in MLflow.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from typing import Any

# C0 without tab and line feed, DEL and C1; marks that reorder or hide text; separators of lines; halves of a pair.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
# How a formula begins; a number or a single sign may begin so too.
_FORMULA = tuple("=+-@\t\r")
_NUMBER = re.compile(r"[-+]?[0-9]*\.?[0-9]*(?:[eE][-+]?[0-9]+)?|[=@]", re.ASCII)


def escape_controls(text: str) -> str:
    r"""Return text that a terminal shows and does not obey: each control character as JSON writes it.

    That is ``\u001b`` for ESC. The same holds for marks of direction, with which text looks like other text, and for
    lone surrogates, which no encoding can write. Tabs and line feeds stay.
    """
    if text.isprintable():  # as nearly every text is; the pattern takes ten times as long
        return text
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def escape_html(text: str) -> str:
    """Return text that HTML shows as a terminal does: markup and control characters are escaped."""
    return html.escape(escape_controls(text))


def escape_nested(value: Any) -> Any:
    """Return nested plain values in which each text and key has its control characters escaped."""
    if isinstance(value, str):
        return escape_controls(value)
    if value is None or isinstance(value, (int, float)):  # most values of a chart or a page
        return value
    if isinstance(value, (list, tuple)):
        return [*map(escape_nested, value)]
    if isinstance(value, Mapping):
        return {escape_nested(key): escape_nested(inner) for key, inner in value.items()}
    return value


def escape_formula(text: str) -> str:
    """Return the text of a CSV cell, with an apostrophe in front if a spreadsheet would take it for a formula.

    That is text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return, and is more than that sign. A
    number such as ``-0.5`` is not a formula.
    """
    return f"'{text}" if text[:1] in _FORMULA and not _NUMBER.fullmatch(text) else text


def json_of(text: str | bytes) -> Any:
    """Return the value of JSON that others may have written.

    Raises:
        ValueError: It is no JSON, not UTF-8, or nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def cut(text: str, length: int) -> str:
    """Return text of at most ``length`` characters: of a longer one its begin, and ``...``."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


def shorten(text: str, length: int) -> str:
    """Return text of at most about ``length`` characters: a longer one without its middle."""
    if len(text) <= length:
        return text
    half = length // 2
    return f"{text[:half]} ... ({len(text) - 2 * half:,} characters left out) ... {text[-half:]}"


def page_of(code: str) -> str:
    """Return the address of the documentation page on a check."""
    return f"https://evalplugin.github.io/evalplugin/checks/{code}.html"
