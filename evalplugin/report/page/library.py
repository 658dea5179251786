"""The chart library and the charts of the page: made once for each version of their sources, then read from disk.

Making them takes seconds, the more so as Altair must be imported, and they are the same for every page.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from evalplugin.base.fingerprint import digest
from evalplugin.files import user_cache

_EXPORT = "window.vegaEmbed = vegaEmbed;"
_SOURCES = ("page/library.py", "page/charts.py", "page/theme.py")  # the modules that define the charts


class ChartLibrary(NamedTuple):
    """The parts that are the same in every page."""

    script: str  # Vega, Vega-Lite and Vega-Embed, which add ``vegaEmbed`` to the window
    charts: dict[str, dict[str, Any]]  # Vega-Lite specifications by name


@cache
def chart_library() -> ChartLibrary:
    """Return the library and the charts, from the user's cache folder; made, and put there, if they are not."""
    return ChartLibrary(
        **json.loads(user_cache.cached(_name(), lambda: json.dumps(_make()._asdict()).encode()))
    )


def make_in_background() -> None:
    """Start a process that makes the library and the charts while other work is done; nothing if they are there."""
    user_cache.make_in_background(_name(), __name__, "chart_library")


def _make() -> ChartLibrary:
    import vl_convert

    from evalplugin.report.page.charts import chart_specs

    bundle = vl_convert.javascript_bundle(_EXPORT)
    script = "\n".join(["(() => {", bundle.replace("</script", "<\\/script"), "})();"])
    return ChartLibrary(script, chart_specs())


def _name() -> str:
    """Return the name of the file in the user's cache folder, with a digest of the content's sources."""
    folder = Path(__file__).parents[1]
    sources = [(folder / name).read_text(encoding="utf-8") for name in _SOURCES]
    return f"charts-{digest([version('altair'), version('vl-convert-python'), *sources])[:16]}.json"
