"""Groups of users, by their interactions or by attributes of their own."""

from evalplugin.segments.attribute import Attribute
from evalplugin.segments.base import SEGMENTS, Segmentation, Segmenter, segment, segmentation
from evalplugin.segments.behaviour import NO_HISTORY, Activity, Cold, Popularity
from evalplugin.segments.groups import Groups, by_number, by_quantile, by_text

__all__ = [
    "NO_HISTORY",
    "SEGMENTS",
    "Activity",
    "Attribute",
    "Cold",
    "Groups",
    "Popularity",
    "Segmentation",
    "Segmenter",
    "by_number",
    "by_quantile",
    "by_text",
    "segment",
    "segmentation",
]
