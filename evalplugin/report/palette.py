"""Colours of models, the same in every output of a bake-off, and the style of matplotlib figures."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, QUIET, _GRID = "#1A1A1A", "#6B6B6B", "#E4E4E4"

BASELINE_COLOUR = "#7F7F7F"
# Distinguishable with the common kinds of colour blindness and on white: the palettes of Okabe & Ito (2008) and of
# Tol ("muted", 2021) without colours that are too pale, too close to another or to the baseline's grey.
PALETTE = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9",
    "#882255", "#117733", "#332288", "#999933", "#AA4499", "#661100",
)  # fmt: skip


def model_colours(models: Sequence[str], baseline: str | None) -> dict[str, str]:
    """Return the colour (``#RRGGBB``) of each model by its position among the models; the baseline is grey.

    Beyond twelve models the colours repeat.
    """
    others = [model for model in models if model != baseline]
    colours = {model: PALETTE[i % len(PALETTE)] for i, model in enumerate(others)}
    return {model: colours.get(model, BASELINE_COLOUR) for model in models}


def style_axes(axes: Axes, colour: str, grid: Literal["x", "y", "both"] = "both") -> None:
    """Draw axes without frame and ticks: labels in a colour, a grid behind the data."""
    axes.tick_params(length=0, labelsize=10, labelcolor=colour)
    axes.grid(axis=grid, color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)


def png_of(figure: Figure, **options: Any) -> bytes:
    """Return a figure as PNG; ``options`` are those of ``savefig``."""
    buffer = io.BytesIO()
    with _any_script():
        figure.savefig(buffer, format="png", **options)
    return buffer.getvalue()


def png_with(canvas: Any, artists: Sequence[Artist]) -> bytes:
    """Return an opaque Agg canvas as PNG, with artists of its figure drawn over it in order."""
    from PIL import Image

    with _any_script():
        for artist in artists:
            canvas.figure.draw_artist(artist)
    dpi = canvas.figure.dpi
    # Without alpha, as the page is opaque: a third less to compress.
    image = Image.fromarray(np.ascontiguousarray(np.asarray(canvas.buffer_rgba())[:, :, :3]))
    buffer = io.BytesIO()
    image.save(buffer, "png", dpi=(dpi, dpi), compress_level=3)
    return buffer.getvalue()


@contextmanager
def _any_script() -> Iterator[None]:
    """Draw a name in a script that the font lacks as boxes, without a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
        yield
