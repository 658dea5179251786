"""The config: what it may hold, where each value stood, and everything that is wrong with it at once."""

from evalplugin.config.checked import CheckedConfig, NamedDataset, NamedModel, NamedSegment, NamedSplit
from evalplugin.config.load import load
from evalplugin.config.outline import Outline
from evalplugin.config.schema import Config

__all__ = [
    "CheckedConfig",
    "Config",
    "NamedDataset",
    "NamedModel",
    "NamedSegment",
    "NamedSplit",
    "Outline",
    "load",
]
