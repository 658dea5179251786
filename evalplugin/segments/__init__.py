"""Groups of users, by their interactions or by attributes of their own."""

from evalplugin.segments.attribute import Attribute
from evalplugin.segments.base import (
    SEGMENTS,
    Segmentation,
    Segmenter,
    clustering,
    clustering_of,
    segment,
    segmentation,
)
from evalplugin.segments.behaviour import NO_HISTORY, Activity, Cold, Popularity
from evalplugin.segments.groups import Groups, by_number, by_quantile, by_text
from evalplugin.segments.history import HistoryLengths, history_lengths
from evalplugin.segments.queries import Position, Repeat

__all__ = [
    "NO_HISTORY",
    "SEGMENTS",
    "Activity",
    "Attribute",
    "Cold",
    "Groups",
    "HistoryLengths",
    "Popularity",
    "Position",
    "Repeat",
    "Segmentation",
    "Segmenter",
    "by_number",
    "by_quantile",
    "by_text",
    "clustering",
    "clustering_of",
    "history_lengths",
    "segment",
    "segmentation",
]
