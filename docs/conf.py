"""Configuration of the documentation: `sphinx-build -W -n docs docs/_build`."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))
# Cells call `python -m evalplugin` by the interpreter that builds the pages.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

from inventories import write_inventories  # noqa: E402 - a module of this folder

from evalplugin import __version__  # noqa: E402 - after the path, as the line above

project = "evalplugin"
author = "the evalplugin developers"
project_copyright = "the evalplugin developers"
version = release = __version__

extensions = [
    "components",
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.intersphinx",
    "sphinx_click",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build", "_extensions", "jupyter_execute"]
highlight_language = "text"
smartquotes = False  # `--` of an option stays two hyphens
nitpicky = True

myst_enable_extensions = ["colon_fence", "deflist"]
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

autodoc_typehints = "none"  # signatures in the code's own words; docstrings give shapes and dtypes
autodoc_member_order = "bysource"
# The names of other projects that the pages link to, so that a build needs no network.
intersphinx_mapping = write_inventories(HERE / "_build" / "inventories")

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
