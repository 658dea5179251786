"""The chart library and the specifications: made once for each version of their sources, then read from disk.

Making them takes seconds, the more so as Altair must be imported, and they are the same for every bake-off.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import platformdirs

from evalplugin.base.fingerprint import digest
from evalplugin.base.libraries import vl_convert
from evalplugin.files.outputs import written_whole

_EXPORT = "window.vegaEmbed = vegaEmbed;"
_SOURCES = ("library.py", "specs.py", "theme.py")  # the modules that define the charts


class ChartLibrary(NamedTuple):
    """The parts that are the same in every page."""

    script: str  # Vega, Vega-Lite and Vega-Embed, which add ``vegaEmbed`` to the window
    charts: dict[str, dict[str, Any]]  # Vega-Lite specifications by name


@cache
def chart_library() -> ChartLibrary:
    """Return the library and the charts, from the user's cache folder; made, and put there, if they are not."""
    file = platformdirs.user_cache_path("evalplugin", appauthor=False) / _name()
    with suppress(OSError, ValueError, TypeError):  # missing or damaged
        return ChartLibrary(**json.loads(file.read_bytes()))
    library = _make()
    with suppress(OSError):  # no folder to write to: it is made each time
        file.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(file) as out:
            out.write(json.dumps(library._asdict()).encode())
    return library


def _make() -> ChartLibrary:
    from evalplugin.report.charts.specs import chart_specs  # with Altair

    bundle = vl_convert.javascript_bundle(_EXPORT)
    script = "\n".join(["(() => {", bundle.replace("</script", "<\\/script"), "})();"])
    return ChartLibrary(script, chart_specs())


def _name() -> str:
    """Return the name of the file in the user's cache folder, with a digest of the content's sources."""
    folder = Path(__file__).parent
    sources = [(folder / name).read_text(encoding="utf-8") for name in _SOURCES]
    return f"charts-{digest([version('altair'), version('vl-convert-python'), *sources])[:16]}.json"
