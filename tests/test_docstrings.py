"""The examples of docstrings print what they say. The last digits of a float differ between processors."""

from __future__ import annotations

import doctest
import importlib
import math
import re
from pathlib import Path

import pytest

import evalplugin
from evalplugin.metrics import METRICS

_FLOAT = re.compile(r"-?\d+(?:\.\d*(?:e[+-]?\d+)?|e[+-]?\d+)")
PACKAGE = Path(evalplugin.__file__).parent
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in PACKAGE.rglob("*.py")
    if re.search(r"^ +>>> ", path.read_text(), re.MULTILINE)
)


class NearFloats(doctest.OutputChecker):
    """Compares text exactly and floats to 14 digits: log, exp and sums differ by a few units in the last place."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        same_text = super().check_output(_FLOAT.sub("0.0", want), _FLOAT.sub("0.0", got), optionflags)
        pairs = zip(map(float, _FLOAT.findall(want)), map(float, _FLOAT.findall(got)), strict=False)
        return same_text and all(math.isclose(*pair, rel_tol=1e-14) for pair in pairs)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_print_what_they_say(name: str) -> None:
    runner = doctest.DocTestRunner(NearFloats(), verbose=False)
    for test in doctest.DocTestFinder().find(importlib.import_module(name)):
        runner.run(test)
    assert runner.tries > 0
    assert runner.failures == 0


def test_every_metric_has_an_example() -> None:
    for entry in METRICS:
        (test,) = doctest.DocTestFinder(recurse=False).find(entry.cls, entry.name)
        assert len(test.examples) >= 2, entry.name


@pytest.mark.parametrize(
    ("got", "same"),
    [
        ("[0.6931471805599453, 2.220446049250313e-16]", True),
        ("[0.6931471805599454, 2.2204460492503136e-16]", True),  # one unit in the last place
        ("[0.6931471805599, 2.220446049250313e-16]", False),
        ("[0.6931471805599453, 0.0]", False),
        ("[0.6931471805599453]", False),
        ("(0.6931471805599453, 2.220446049250313e-16)", False),
        ("[-0.6931471805599453, 2.220446049250313e-16]", False),
    ],
)
def test_floats_of_examples_are_compared_to_their_last_digits(got: str, same: bool) -> None:
    want = "[0.6931471805599453, 2.220446049250313e-16]"
    assert NearFloats().check_output(f"{want}\n", f"{got}\n", 0) == same
