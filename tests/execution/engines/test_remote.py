"""Plugin files of a session on a node that may have some of its own."""

from __future__ import annotations

import pytest

from evalplugin.execution.engines import remote
from evalplugin.execution.worker import Limits


@pytest.mark.parametrize(
    ("there", "is_original"),
    [
        ({"own.py": "import helper", "helper.py": "X = 1"}, True),
        ({"own.py": "import helper"}, True),  # the helper comes from the folder of modules
        ({"own.py": "import helper  # older", "helper.py": "X = 1"}, False),
        ({}, False),
    ],
)
def test_node_falls_back_to_the_shipped_plugin_where_its_files_differ(tmp_path, there, is_original):
    for name, content in there.items():
        (tmp_path / name).write_text(content)
    origin = tmp_path / "own.py"
    setup = remote.Setup(
        "session", {}, ((origin, b"import helper"),), {"helper.py": b"X = 1"}, {}, {}, Limits(), threads=1
    )
    ((named, file),) = remote._plugins(setup).items()
    assert named == origin
    assert (file == origin) is is_original
    assert is_original or file.is_relative_to(setup.folder)
