"""Running the checks: those of the data before anything is fitted, those of the results after the comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from evalplugin.base.errors import DataError
from evalplugin.comparison.comparison import Comparison
from evalplugin.config import CheckedConfig
from evalplugin.config.sections import CheckRules
from evalplugin.execution.observer import Observer
from evalplugin.execution.results import BakeoffResult, DataInfo, DataSplit, Finding
from evalplugin.execution.runner import PreparedData
from evalplugin.features.checks.base import Found, Results, of_data, of_models, of_results

__all__ = ["data_findings", "with_data_findings", "with_result_findings"]


def data_findings(
    config: CheckedConfig, prepared: Sequence[PreparedData], *, fit: bool = False
) -> list[Finding]:
    """Return what the checks of the data find, each finding once, by dataset, split and code.

    ``fit``: whether to make the checks too that fit the models on a sample.
    """
    rules = _rules(config)
    checks = of_data | of_models if fit else of_data
    found = [
        _finding(one.info, code, text, rules)
        for one in prepared
        for code, check in sorted(checks.items())
        if code not in rules.ignore
        for text in check.find(config, one)
    ]
    return _merged(found, prepared)


def with_data_findings(
    config: CheckedConfig, prepared: Sequence[PreparedData], observer: Observer
) -> list[PreparedData]:
    """Return prepared data with the findings of the checks of the data, each of which is a warning of the observer.

    Raises:
        DataError: Findings that the config declares to be errors.
    """
    with observer.progress("check the data"):
        found = data_findings(config, prepared)
    for finding in found:
        if finding.severity == "warning":
            observer.warn(finding.line)
    if errors := [finding.line for finding in found if finding.is_error]:
        raise DataError("\n".join(f"{line} (checks.error)" for line in errors))
    return [
        replace(one, info=replace(one.info, findings=tuple(f for f in found if _is_of(f, one.info))))
        for one in prepared
    ]


def with_result_findings(
    config: CheckedConfig,
    prepared: Sequence[PreparedData],
    result: BakeoffResult,
    comparisons: Sequence[Comparison],
    observer: Observer,
) -> list[Comparison]:
    """Return the comparisons of a bake-off with the findings of the checks of its results added to their contests."""
    rules = _rules(config)
    found = []
    for one, comparison in zip(prepared, comparisons, strict=True):
        place = DataSplit.of(one.info)
        models = [model for model in result.models if DataSplit.of(model.data) == place]
        results = Results(config, one, models, comparison)
        for code, check in sorted(of_results.items()):
            if code not in rules.ignore:
                found += [_finding(one.info, code, text, rules) for text in check.find(results)]
    merged = _merged(found, prepared)
    for finding in merged:
        observer.warn(finding.line)
    return [
        replace(
            comparison,
            contest=replace(
                comparison.contest,
                findings=(
                    *comparison.contest.findings,
                    *(finding for finding in merged if _is_of(finding, one.info)),
                ),
            ),
        )
        for one, comparison in zip(prepared, comparisons, strict=True)
    ]


def _rules(config: CheckedConfig) -> CheckRules:
    return config.spec.checks or CheckRules()


def _finding(info: DataInfo, code: str, found: Found, rules: CheckRules) -> Finding:
    return Finding(
        code,
        found.text,
        "error" if code in rules.error else "warning",
        dataset=info.dataset,
        split=info.split,
        model=found.model,
    )


def _merged(found: Iterable[Finding], prepared: Sequence[PreparedData]) -> list[Finding]:
    """Return the findings with those that are the same under every split of a dataset once, without a split."""
    findings = list(found)
    splits = {one.info.dataset: {other.info.split for other in prepared if other.info.dataset == one.info.dataset}
              for one in prepared}  # fmt: skip

    def merged(finding: Finding) -> Finding:
        same = {one.split for one in findings if replace(one, split=finding.split) == finding}
        return replace(finding, split="") if same == splits[finding.dataset] else finding

    return list(dict.fromkeys(map(merged, findings)))


def _is_of(finding: Finding, info: DataInfo) -> bool:
    return finding.dataset == info.dataset and finding.split in ("", info.split)
