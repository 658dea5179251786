"""Features: optional parts of a bake-off. Each is a folder here and a name in ``FEATURES``."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

# In this order, the flow calls them at each moment of a bake-off.
FEATURES = (
    "gate",
    "tuning",
    "checks",
    "data_card",
    "history",
    "ranks",
    "power",
    "off_policy",
    "resume",
    "notifications",
)


def modules(name: str) -> Iterator[ModuleType]:
    """Yield the module of a name of each feature that has one: ``section``, ``cli`` or ``feature``.

    ``section`` has ``SECTIONS``, the sections of the config, and may have ``CHECKS``, their checks by key; ``cli`` has
    ``COMMAND``, for the command line; ``feature`` has ``FEATURE``, the subclass of ``Feature``.
    """
    for feature in FEATURES:
        if (Path(__file__).parent / feature / f"{name}.py").exists():
            yield import_module(f"{__name__}.{feature}.{name}")
