"""No stable name goes or changes without notice, and each new one is in its file."""

from __future__ import annotations

import json
import re

import pytest
from stable.surface import FOLDER, SURFACES

NEW = "new names are stable from the next release on; write them down by: python tests/stable/surface.py"


def broken(said: dict[str, str], found: dict[str, str]) -> list[str]:
    """Return a line for each name that is gone, or no longer takes what it took."""
    gone = [f"{name} is gone" for name in said if name not in found]
    changed = [name for name in said if name in found and not takes_as_much(said[name], found[name])]
    return gone + [f"{name}: {said[name]} -> {found[name]}" for name in changed]


def takes_as_much(said: str, found: str) -> bool:
    """Return whether only alternatives were added to what is before the default, such as a format."""
    (kind, *default), (new_kind, *new_default) = said.split(" = "), found.split(" = ")
    is_wider = kind[:2] != "->" and {*re.findall(r"\w+", kind)} < {*re.findall(r"\w+", new_kind)}
    return default == new_default and (kind == new_kind or is_wider)


@pytest.mark.parametrize("kind", SURFACES)
def test_what_is_stable_stays(kind: str) -> None:
    said, found = json.loads((FOLDER / f"{kind}.json").read_text()), dict(SURFACES[kind]())
    assert broken(said, found) == [], "this breaks what docs/explanation/stability.md promises"
    assert found == said, NEW


@pytest.mark.parametrize(
    ("was", "now", "is_broken"),
    [
        ("text = ", None, True),
        ("[table|json]", "[table|json|csv]", False),
        ("[table|json]", "[table|csv]", True),
        ("str | None = None", "str | Path | None = None", False),
        ("str | None = None", "str | None = 'x'", True),
        ("number = 0.95", "number = 0.9", True),
        ("str = required, position 1", "str = required, position 2", True),
        ("-> Comparisons", "-> Comparisons | None", True),
        ("2", "1", True),
    ],
)
def test_a_name_that_goes_or_takes_less_is_told(was: str, now: str | None, is_broken: bool) -> None:
    said = {"name": was}
    found = {"new": ""} | ({} if now is None else {"name": now})
    assert bool(broken(said, found)) == is_broken
