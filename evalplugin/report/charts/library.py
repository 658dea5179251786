"""The chart library of the page, and the specifications of all charts: files beside this module.

Making them takes seconds and 90 MB of packages, and they are the same for every bake-off. After a change of
``specs.py``: ``python docs/generate.py``; for a newer Vega: ``python docs/generate.py --vega``.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

VEGA = Path(__file__).with_name("vega.js")
SPECS = Path(__file__).with_name("specs.json")


class ChartLibrary(NamedTuple):
    """The parts that are the same in every page."""

    script: str  # Vega, Vega-Lite and Vega-Embed, which add ``vegaEmbed`` to the window
    charts: dict[str, dict[str, Any]]  # Vega-Lite specifications by name


@cache
def chart_library() -> ChartLibrary:
    """Return the library and the charts."""
    return ChartLibrary(VEGA.read_text("utf-8"), json.loads(SPECS.read_text("utf-8")))
