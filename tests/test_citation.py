"""CITATION.cff has what its format requires, and the package's version."""

from __future__ import annotations

import tomllib
from pathlib import Path

import yaml

from evalplugin import __version__

ROOT = Path(__file__).parents[1]


def test_the_citation_is_complete_and_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {"cff-version", "message", "title", "authors"} <= set(citation)  # required by the format
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == __version__
    assert citation["license"] == project["license"]
    assert citation["repository-code"] == project["urls"]["Source"]
    assert citation["url"] == project["urls"]["Documentation"]
    assert citation["authors"] == project["authors"]


def test_the_page_names_this_version() -> None:
    assert f"version {__version__}. https" in (ROOT / "docs" / "howto" / "upgrading.md").read_text()
