"""CITATION.cff has what its format requires, and the package's version."""

from __future__ import annotations

import re
import tomllib
from datetime import date
from pathlib import Path

import yaml

from evalplugin import __version__

ROOT = Path(__file__).parents[1]


def test_the_citation_is_complete_and_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = {"cff-version", "message", "title", "authors"}
    allowed = {"type", "version", "date-released", "license", "repository-code", "url", "keywords"}
    assert required <= set(citation) <= required | allowed  # the format has no other keys than its own
    assert citation["type"] == "software"
    date.fromisoformat(citation["date-released"])
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == __version__
    assert citation["license"] == project["license"]
    assert citation["repository-code"] == project["urls"]["Source"]
    assert citation["url"] == project["urls"]["Documentation"]
    assert citation["authors"] == project["authors"]


def test_the_changelog_has_this_version_with_the_date_of_the_citation() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    (latest, *_) = re.findall(r"^## (\d.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert latest == f"{__version__} - {citation['date-released']}"


def test_the_pages_name_this_version() -> None:
    howto = ROOT / "docs" / "howto"
    assert f"version {__version__}. https" in (howto / "upgrading.md").read_text()
    assert f"evalplugin/evalplugin@v{__version__}\n" in (howto / "ci.md").read_text()
