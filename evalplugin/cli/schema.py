"""The command ``schema``: the JSON Schema of configs."""

from __future__ import annotations

import json

from evalplugin.base.errors import EXIT_DONE
from evalplugin.cli import options
from evalplugin.cli.shared import echo_data


@options.command()
@options.debug
def schema() -> int:
    """Print the JSON Schema of configs, for editors."""
    from evalplugin.config.json_schema import json_schema
    from evalplugin.features.config import Config

    echo_data(json.dumps(json_schema(Config), indent=2))
    return EXIT_DONE
