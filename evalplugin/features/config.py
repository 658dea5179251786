"""Configs with the sections of all features."""

from functools import partial

from evalplugin import config
from evalplugin.config.schema import root_schema
from evalplugin.features import modules

Config = root_schema([section for module in modules("section") for section in module.SECTIONS])
Config.__module__ = __name__  # where pickle finds it

load = partial(config.load, schema=Config)
