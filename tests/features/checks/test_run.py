from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from samples import small_config

from evalplugin.base.errors import ConfigError, UnknownNameError
from evalplugin.cli import main
from evalplugin.execution.observer import Observer
from evalplugin.execution.results import Finding
from evalplugin.execution.runner import prepare
from evalplugin.features.checks.catalogue import CHECKS, check_of
from evalplugin.features.checks.feature import data_findings
from evalplugin.features.checks.section import Code
from evalplugin.features.config import load


def found(**changes: Any) -> list[Finding]:
    config = load(small_config(**changes))
    return data_findings(config, prepare(config, None, Observer()))


def test_a_config_can_name_every_check_and_no_other_code() -> None:
    assert sorted(get_args(Code)) == sorted(CHECKS)


@pytest.mark.parametrize(
    ("checks", "message"),
    [
        ({"ignore": ["EV1O9"]}, "checks.ignore[0]: must be .*, not 'EV1O9'; did you mean 'EV1.9'"),
        ({"error": ["EV999"]}, "checks.error[0]: must be .*, not 'EV999'"),
        ({"ignore": ["EV114"], "error": ["EV114"]}, "checks: EV114 stands under ignore and under error"),
        ({"ignored": []}, "checks.ignored: unknown key 'ignored'; did you mean 'ignore'"),
        (None, "checks: is empty: leave it out"),
    ],
)
def test_wrong_codes_are_refused_with_place_and_nearest_match(checks: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("[", r"\[")):
        load(small_config(checks=checks))


def test_a_finding_has_code_severity_and_place() -> None:
    (finding,) = found(relevance={})
    assert (finding.code, finding.severity) == ("EV114", "warning")
    assert (finding.dataset, finding.split) == ("tiny", "")
    assert finding.line.startswith("EV114 tiny: relevance.threshold is not set")
    assert Finding(**json.loads(json.dumps(finding.__dict__))) == finding


def test_ignored_checks_find_nothing_and_findings_of_error_checks_are_errors() -> None:
    assert found(relevance={}, checks={"ignore": ["EV101", "EV114"]}) == []
    (finding,) = found(relevance={}, checks={"ignore": ["EV101"], "error": ["EV114"]})
    assert finding.severity == "error"


def test_what_is_the_same_under_every_split_is_found_once() -> None:
    splits = [{"type": "last_n", "n": n, "name": f"last {n}"} for n in (1, 2)]
    (finding,) = found(relevance={}, split=splits)
    assert finding.split == ""


def test_an_unknown_check_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(UnknownNameError, match="unknown check 'EV1l9'; did you mean 'EV109' or 'EV119'"):
        check_of("EV1l9")


def test_list_and_describe_show_checks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "checks"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in listed] == sorted(CHECKS)
    assert main(["describe", "check", "EV114"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    check = CHECKS["EV114"]
    for part in ("EV114", check.title, check.rule, check.why, check.source, check.remedy, check.url):
        assert part in shown
