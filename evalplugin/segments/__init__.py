"""Groups of users, by their interactions or by attributes of their own."""

from evalplugin.segments.attribute import Attribute
from evalplugin.segments.base import SEGMENTS, Segmentation, Segmenter, segment, segmentation
from evalplugin.segments.behaviour import Activity, Cold, Popularity
from evalplugin.segments.groups import Groups, by_number, by_quantile, by_text

__all__ = [
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
