"""The config: its YAML document, its schema, and checks that report every mistake at once."""

from evalplugin.config.checked import CheckedConfig, ModelRecipe, Named, NamedDataset
from evalplugin.config.load import load
from evalplugin.config.schema import Config

__all__ = ["CheckedConfig", "Config", "ModelRecipe", "Named", "NamedDataset", "load"]
