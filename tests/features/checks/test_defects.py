"""Each check finds the defect that is seeded for it, and none finds anything in clean data."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from evalplugin.features.checks.catalogue import CHECKS

sys.path.insert(0, str(Path(__file__).parents[3] / "experiments" / "checks"))
from defects import DEFECTS, clean, clean_log, findings


def test_every_check_has_a_seeded_defect_and_every_text() -> None:
    assert set(DEFECTS) == set(CHECKS)
    for code, check in CHECKS.items():
        for text in (check.title, check.rule, check.why, check.source, check.remedy):
            assert text and text == text.strip(), code
        assert check.rule.endswith("."), code


def test_clean_data_raises_no_alarm() -> None:
    assert [finding.line for finding in findings(clean(0))] == []


def test_a_clean_log_raises_no_alarm() -> None:
    assert [finding.line for finding in findings(clean_log(np.random.default_rng(0)))] == []


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(code, marks=[pytest.mark.slow] * (CHECKS[code].kind == "results"))
        for code in sorted(DEFECTS)
    ],
)
def test_a_seeded_defect_is_found(code: str) -> None:
    _, seed_defect = DEFECTS[code]
    seeded = seed_defect(clean(0), np.random.default_rng(0))
    found = findings(seeded, of=tuple({CHECKS[code].kind} - {"data"}))
    assert code in [finding.code for finding in found]
    for finding in found:
        assert "\n" not in finding.text and any(sign.isdigit() for sign in finding.line)
