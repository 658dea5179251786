"""The chart library and the charts of the page: made once for each version of what makes them, then read from disk.

Making them takes seconds, the more so as Altair must be imported, and they are the same for every page.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from evalplugin.base.fingerprint import digest

__all__ = ["ChartLibrary", "chart_library", "make_in_background"]

_EXPORT = "window.vegaEmbed = vegaEmbed;"
_SOURCES = ("page/charts.py", "trend.py")  # the modules that define the charts
_SECONDS = 60  # to wait for the process that makes them


class ChartLibrary(NamedTuple):
    """What every page has."""

    script: str  # Vega, Vega-Lite and Vega-Embed, which add ``vegaEmbed`` to the window
    charts: dict[str, dict[str, Any]]  # Vega-Lite specifications by name


@cache
def chart_library() -> ChartLibrary:
    """Return the library and the charts, from the user's cache folder; made, and put there, if they are not."""
    file = _file()
    with suppress(subprocess.TimeoutExpired):
        for process in _processes:
            process.wait(_SECONDS)
    if (found := _read(file)) is not None:
        return found
    made = _make()
    _write(file, made)
    return made


def make_in_background() -> None:
    """Start a process that makes the library and the charts while other work is done; nothing if they are there."""
    if _processes or not sys.executable or _file().exists():
        return
    code = f"from {__name__} import chart_library; chart_library()"
    nothing = subprocess.DEVNULL
    with suppress(OSError):  # then they are made when a page needs them
        _processes.append(
            subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=nothing,
                stdout=nothing,
                stderr=nothing,
                start_new_session=True,  # Ctrl-C is not for it
            )
        )


_processes: list[subprocess.Popen[bytes]] = []  # at most one


def _make() -> ChartLibrary:
    import vl_convert

    from evalplugin.report.page.charts import chart_specs

    bundle = vl_convert.javascript_bundle(_EXPORT)
    script = "\n".join(["(() => {", bundle.replace("</script", "<\\/script"), "})();"])
    return ChartLibrary(script, chart_specs())


def _file() -> Path:
    """Return the file in the user's cache folder; its name depends on all that decides the content."""
    from platformdirs import user_cache_path

    folder = Path(__file__).parents[1]
    sources = [(folder / name).read_text(encoding="utf-8") for name in _SOURCES]
    makers = [version("altair"), version("vl-convert-python"), Path(__file__).read_text(encoding="utf-8")]
    name = digest([*makers, *sources])[:16]
    return user_cache_path("evalplugin", appauthor=False) / f"charts-{name}.json"


def _read(file: Path) -> ChartLibrary | None:
    try:
        content = json.loads(file.read_bytes())
        found = ChartLibrary(**content["library"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if content.get("sha256") == digest(found) else None


def _write(file: Path, library: ChartLibrary) -> None:
    content = {"sha256": digest(library), "library": library._asdict()}
    with suppress(OSError):  # no folder to write to: they are made for each page
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor, partial = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            json.dump(content, out)
        Path(partial).replace(file)
