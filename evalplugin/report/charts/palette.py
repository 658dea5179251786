"""Colours and shapes of models, the same in every output of a bake-off."""

from __future__ import annotations

from collections.abc import Sequence

BASELINE_COLOUR = "#7F7F7F"
# Distinguishable with the common kinds of colour blindness and on white: the palettes of Okabe & Ito (2008) and of
# Tol ("muted", 2021) without colours that are too pale, too close to another or to the baseline's grey.
PALETTE = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9",
    "#882255", "#117733", "#332288", "#999933", "#AA4499", "#661100",
)  # fmt: skip

# Of colours too dark for the dark page: mixed with white until their contrast with it is 4; WCAG requires 3.
IN_THE_DARK = {
    "#0072B2": "#1A80BA", "#882255": "#AC6488", "#117733": "#328A50",
    "#332288": "#7C72B3", "#AA4499": "#B257A3", "#661100": "#A06B61",
}  # fmt: skip
# Outlines of -1 to 1, for Vega and for SVG alike.
SHAPES = (
    "M1,0A1,1,0,1,1,-1,0A1,1,0,1,1,1,0Z",  # circle
    "M-.9,-.9H.9V.9H-.9Z",  # square
    "M0,-1.1L1.05,.8H-1.05Z",  # triangle
    "M0,-1.25L1.05,0L0,1.25L-1.05,0Z",  # diamond
    "M-.4,-1.1H.4V-.4H1.1V.4H.4V1.1H-.4V.4H-1.1V-.4H-.4Z",  # plus
    "M0,1.1L1.05,-.8H-1.05Z",  # triangle, down
    "M-.5,-1L.5,-1L1.1,0L.5,1L-.5,1L-1.1,0Z",  # hexagon
)


def model_colours(models: Sequence[str], baseline: str | None) -> dict[str, str]:
    """Return the colour (``#RRGGBB``) of each model by its position among the models; the baseline is grey.

    Beyond twelve models the colours repeat.
    """
    others = [model for model in models if model != baseline]
    colours = {model: PALETTE[i % len(PALETTE)] for i, model in enumerate(others)}
    return {model: colours.get(model, BASELINE_COLOUR) for model in models}


def model_styles(models: Sequence[str], baseline: str | None) -> dict[str, dict[str, str]]:
    """Return the ``colour`` and the ``shape`` of each model, as fields of rows; shapes repeat beyond seven models."""
    colours = model_colours(models, baseline)
    return {
        model: {"colour": colour, "shape": SHAPES[number % len(SHAPES)]}
        for number, (model, colour) in enumerate(colours.items())
    }
