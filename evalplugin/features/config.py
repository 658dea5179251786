"""Configs with the sections of all features."""

from functools import partial

from evalplugin import config
from evalplugin.config.schema import root_schema
from evalplugin.features import modules

_MODULES = list(modules("section"))

Config = root_schema([section for module in _MODULES for section in module.SECTIONS])
Config.__module__ = __name__  # where pickle finds it

load = partial(
    config.load,
    schema=Config,
    section_checks={
        key: check for module in _MODULES for key, check in getattr(module, "CHECKS", {}).items()
    },
)
