"""Colours of models: the same in every run, picture and table of a bake-off."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["BASELINE_COLOUR", "PALETTE", "model_colours"]

BASELINE_COLOUR = "#7F7F7F"
# Told apart under the common kinds of colour blindness and in front of white: the palettes of Okabe & Ito (2008)
# and of Tol ("muted", 2021) without what is too pale, too close to another or close to the baseline's grey.
PALETTE = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#882255",
    "#117733",
    "#332288",
    "#999933",
    "#AA4499",
    "#661100",
)


def model_colours(models: Sequence[str], baseline: str | None) -> dict[str, str]:
    """Return the colour (``#RRGGBB``) of each model by its position among the models; the baseline is grey.

    Beyond twelve models the colours come round again.
    """
    others = [model for model in models if model != baseline]
    colours = {model: PALETTE[i % len(PALETTE)] for i, model in enumerate(others)}
    return {model: colours.get(model, BASELINE_COLOUR) for model in models}
