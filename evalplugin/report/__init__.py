"""Tables, texts and pictures of a bake-off, made from plain results."""

from __future__ import annotations

from evalplugin.report.figures import Curve, axis_limits, per_user_figures
from evalplugin.report.palette import BASELINE_COLOUR, PALETTE, model_colours
from evalplugin.report.text import leaderboard_markdown, note_markdown, summary_markdown

__all__ = [
    "BASELINE_COLOUR",
    "PALETTE",
    "Curve",
    "axis_limits",
    "leaderboard_markdown",
    "model_colours",
    "note_markdown",
    "per_user_figures",
    "summary_markdown",
]
