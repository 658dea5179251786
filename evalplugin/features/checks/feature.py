"""Checks in a bake-off: of the data before anything is fitted, of the results after the comparison."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from evalplugin.execution.runner import PreparedData
from evalplugin.features.base import Feature, Results, Running
from evalplugin.features.checks.run import with_data_findings, with_result_findings
from evalplugin.tracking.write.items import Item
from evalplugin.tracking.write.labels import findings_tag
from evalplugin.workspace import Workspace

__all__ = ["ChecksFeature"]


class ChecksFeature(Feature):
    """Looks for known defects of evaluations; each finding is a warning, or an error if the config says so."""

    def with_data(self, workspace: Workspace, prepared: list[PreparedData]) -> list[PreparedData]:
        """Add the findings in the data.

        Raises:
            DataError: Findings that the config declares to be errors.
        """
        return with_data_findings(workspace.config, prepared, workspace.observer)

    def after(self, running: Running, results: Results) -> Results:
        """Add the findings in the results to the contests of the comparisons."""
        workspace = running.workspace
        with workspace.observer.progress("check the results"):
            checked = with_result_findings(
                workspace.config,
                running.prepared,
                results.result,
                results.comparisons,
                workspace.observer,
            )
        return replace(results, comparisons=tuple(checked))

    def items(self, results: Results) -> Iterator[Item]:
        """Yield a tag with all findings, if there are any."""
        if results.findings:
            yield findings_tag(results.findings)
