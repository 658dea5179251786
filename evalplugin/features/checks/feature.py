"""Checks in a bake-off: of the data before anything is fitted, of the results after the comparison."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from evalplugin.base.errors import DataError
from evalplugin.base.places import DataSplit
from evalplugin.comparison.comparison import Comparison
from evalplugin.config import CheckedConfig
from evalplugin.execution.results import DataInfo, Finding, ModelResult
from evalplugin.execution.runner import PreparedData
from evalplugin.features.base import Bakeoff, Feature
from evalplugin.features.checks.base import SplitResults
from evalplugin.features.checks.catalogue import CHECKS
from evalplugin.features.checks.section import CheckRules
from evalplugin.report.sections import Section
from evalplugin.tracking.write.items import Item
from evalplugin.tracking.write.labels import checks_datum


class ChecksFeature(Feature):
    """Looks for known defects of evaluations; each finding is a warning, or an error if the config says so."""

    def with_data(self, bakeoff: Bakeoff) -> None:
        """Add the findings in the data.

        Raises:
            DataError: Findings that the config declares to be errors.
        """
        observer, prepared = bakeoff.workspace.observer, bakeoff.prepared
        with observer.progress("check the data"):
            findings = data_findings(bakeoff.workspace.config, prepared)
        for line in dict.fromkeys(_silent_checks(prepared)):
            observer.report(line)
        for finding in findings:
            if finding.severity == "warning":
                observer.warn(finding.line)
        if errors := [finding.line for finding in findings if finding.is_error]:
            raise DataError("\n".join(f"{line} (checks.error)" for line in errors))
        bakeoff.prepared = [
            replace(data, info=replace(data.info, findings=_concerning(data.info, findings)))
            for data in prepared
        ]

    def after(self, bakeoff: Bakeoff) -> None:
        """Add the findings in the results."""
        observer, prepared, comparisons = bakeoff.workspace.observer, bakeoff.prepared, bakeoff.comparisons
        with observer.progress("check the results"):
            promoted = bakeoff.facts().get("decision", {}).get("promoted") is not None
            findings = result_findings(
                bakeoff.workspace.config, prepared, bakeoff.models, comparisons, promoted
            )
            for finding in findings:
                observer.warn(finding.line)
        bakeoff.result_findings = tuple(findings)

    def sections(self, bakeoff: Bakeoff, comparisons: Sequence[Comparison]) -> Iterator[Section]:
        """Yield the findings in the results."""
        yield Section(findings=bakeoff.result_findings)

    def items(self, bakeoff: Bakeoff) -> Iterator[Item]:
        """Yield all findings for programs, if there are any."""
        if bakeoff.findings:
            yield checks_datum(bakeoff.findings)

    def facts(self, bakeoff: Bakeoff) -> Mapping[str, Any]:
        """Return all findings, and the first one that is an error."""
        findings, errors = bakeoff.findings, bakeoff.errors
        return {
            "checks": [asdict(finding) for finding in findings],
            "error": errors[0].line if errors else None,
        }

    def fails(self, bakeoff: Bakeoff) -> bool:
        """Return whether a finding is an error."""
        return bool(bakeoff.errors)


def _silent_checks(prepared: Sequence[PreparedData]) -> Iterator[str]:
    """Yield a line on the checks that have nothing to look at in data that comes in parts."""
    for data in prepared:
        if data.info.full.part is not None and data.info.full.timestamp is None:
            yield (
                f"{data.info.dataset}: the data has no times, so that EV101 (train data from the future) and EV109 (a "
                f"test of one day) cannot look at the split that it comes with"
            )


def data_findings(
    config: CheckedConfig, prepared: Sequence[PreparedData], *, fit: bool = False
) -> list[Finding]:
    """Return the findings in the data, each once, by dataset, split and code.

    ``fit``: whether to include the checks that fit the models on a sample.
    """
    kinds = ("data", "models") if fit else ("data",)
    findings: list[Finding] = []
    for data in prepared:
        findings += _run(kinds, config, data.info, config, data)
    return _merged(findings, prepared)


def result_findings(
    config: CheckedConfig,
    prepared: Sequence[PreparedData],
    models: Sequence[ModelResult],
    comparisons: Sequence[Comparison],
    promoted: bool = False,
) -> list[Finding]:
    """Return the findings in the results, each once, by dataset, split and code.

    Args:
        config: The config of the bake-off.
        prepared: Its data.
        models: The results of all models on all data.
        comparisons: A comparison for each of ``prepared``, in the same order.
        promoted: Whether a gate has promoted a model.
    """
    findings: list[Finding] = []
    for data, comparison in zip(prepared, comparisons, strict=True):
        place = DataSplit.of(data.info)
        here = [model for model in models if DataSplit.of(model.data) == place]
        results = SplitResults(config, data, here, comparison, promoted)
        findings += _run(("results",), config, data.info, results)
    return _merged(findings, prepared)


def _run(
    kinds: Collection[str], config: CheckedConfig, info: DataInfo, *looked_at: object
) -> Iterator[Finding]:
    """Yield the findings of checks in the order of their codes, without those that the config ignores."""
    rules = config.section("checks") or CheckRules()
    for code, check in sorted(CHECKS.items()):
        if check.kind in kinds and code not in rules.ignore:
            for text, model in check.find(*looked_at):
                yield Finding(
                    code, text, "error" if code in rules.error else "warning", info.dataset, info.split, model
                )


def _merged(findings: Sequence[Finding], prepared: Sequence[PreparedData]) -> list[Finding]:
    """Return each finding once: without a split where it is the same under every split of its dataset."""
    splits: dict[str, set[str]] = {}
    for data in prepared:
        splits.setdefault(data.info.dataset, set()).add(data.info.split)

    found: dict[Finding, set[str]] = {}
    for finding in findings:
        found.setdefault(replace(finding, split=""), set()).add(finding.split)

    def merged(finding: Finding) -> Finding:
        anywhere = replace(finding, split="")
        return anywhere if found[anywhere] == splits[finding.dataset] else finding

    return list(dict.fromkeys(map(merged, findings)))


def _concerning(info: DataInfo, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings on a dataset and split, in order."""
    return tuple(f for f in findings if f.dataset == info.dataset and f.split in ("", info.split))


FEATURE = ChecksFeature
