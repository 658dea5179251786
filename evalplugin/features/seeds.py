"""Several seeds: a report on the models that are fitted once all the same."""

from __future__ import annotations

from evalplugin.execution.runner import Job, PreparedData
from evalplugin.features.base import Feature
from evalplugin.workspace import Workspace


class SeedsFeature(Feature):
    """Reports which models are fitted once though there are several seeds, as no random numbers decide their lists."""

    def with_jobs(self, workspace: Workspace, prepared: list[PreparedData], jobs: list[Job]) -> list[Job]:
        """Report the models without random numbers."""
        seeds, models = workspace.config.spec.seeds, workspace.config.models
        once = list(dict.fromkeys(job.model.name for job in jobs if job.seeds == 1))
        if seeds > 1 and once:
            workspace.observer.report(
                f"seeds: {', '.join(once)} {'draws' if len(once) == 1 else 'draw'} no random numbers, or always the "
                f"same ones, and {'is' if len(once) == 1 else 'are'} fitted once; the others {seeds} times"
                if len(once) < len(models)
                else f"seeds: no model draws random numbers, so that each is fitted once, not {seeds} times"
            )
        return jobs
