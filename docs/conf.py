"""Configuration of the documentation: `sphinx-build -W -n docs docs/_build`."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

from sphinx.application import Sphinx

from evalplugin import __version__

# Cells call `python -m evalplugin` by the interpreter that builds the pages.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

project = "evalplugin"
author = "the evalplugin developers"
project_copyright = "the evalplugin developers"
version = release = __version__

extensions = ["myst_nb", "sphinx_copybutton"]
exclude_patterns = [
    "_build",
    "jupyter_execute",
    "contributing/*",
]  # contributors read these in the repository
highlight_language = "text"
smartquotes = False  # `--` of an option stays two hyphens
nitpicky = True

myst_heading_anchors = 3
nb_execution_mode = "force"  # pages with cells are run at every build: what they show is real
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_execution_timeout = 300
nb_merge_streams = True
os.environ["COLUMNS"] = "120"  # of commands in cells, which IPython runs in a terminal of 80
# What cells write to this folder is part of the site: the comparison page of the tutorial.
os.environ["EVALPLUGIN_DOCS_EXTRA"] = tempfile.mkdtemp(prefix="evalplugin-docs-")
html_extra_path = [os.environ["EVALPLUGIN_DOCS_EXTRA"]]

html_theme = "pydata_sphinx_theme"
html_title = "evalplugin"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
}
html_sidebars = {page: [] for page in ("index", "tutorial", "faq", "glossary", "contributing", "changelog")}
copybutton_prompt_text = "$ "


def _add_toctree(app: Sphinx, page: str, source: list[str]) -> None:
    """Add the pages that an index page links to, to the navigation; in a clone, a directive of the page would show."""
    if page.rpartition("/")[2] == "index":
        links = re.findall(r"\[([^\]]+)\]\((\w+(?:/index)?)\.md\)", source[0])
        texts = {name: text for text, name in reversed(links)}  # those of the first link to each
        pages = dict.fromkeys(name for _, name in links)
        entries = (f"{texts[name]} <{name}>" if page == "index" else name for name in pages)
        source[0] += "\n```{toctree}\n:hidden:\n\n" + "\n".join(entries) + "\n```\n"


def setup(app: Sphinx) -> None:
    """Register the hook that adds pages to the navigation."""
    app.connect("source-read", _add_toctree)
