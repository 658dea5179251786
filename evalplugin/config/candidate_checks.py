"""Checks of ``recommend:`` against the datasets and the splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evalplugin.base.errors import Problem
from evalplugin.config.checked import NamedDataset
from evalplugin.config.checks import Checks
from evalplugin.config.components import DatasetSpec, InlineSpec
from evalplugin.config.sections import Recommend


def check_candidates(
    checks: Checks,
    recommend: Recommend,
    datasets: Sequence[NamedDataset],
) -> Recommend:
    """Return the section with the candidates that hold where they are left out; report problems."""
    if "recommend" in checks.malformed:
        return recommend
    _check_pools(checks, recommend)
    events = [dataset for dataset in datasets if dataset.has_events]
    if not events:
        return recommend
    if "candidates" not in recommend.model_fields_set:
        if len(events) < len(datasets):
            other = next(dataset.name for dataset in datasets if not dataset.has_events)
            checks.add(
                ("datasets",),
                f"{events[0].name} is a log of events (duplicates: keep), whose users may meet an item again, and "
                f"{other} is not: say recommend.candidates (all, for example), or use a config for each",
            )
        return recommend.model_copy(update={"candidates": "all"})
    if recommend.candidates == "given" and recommend.seen is None:
        return recommend.model_copy(update={"seen": "keep"})
    if recommend.candidates == "unseen":
        checks.add(
            ("recommend", "candidates"),
            f"unseen leaves out what a user has met before, and {events[0].name} is a log of events (duplicates: "
            f"keep), whose users meet items again: such truth could never be listed; set candidates: all, or leave it "
            f"out",
        )
    return recommend


def _check_pools(checks: Checks, recommend: Recommend) -> None:
    """Report tables of given candidates that are not there, or lack a column."""
    problems: list[Problem] = []
    for key, pool in recommend.pools().items():
        for _, dataset in checks.parts("datasets", DatasetSpec):
            for _, split in checks.parts("split", InlineSpec):
                found = pool.check(checks.context.base, dataset.name, split.name)
                problems += [replace(p, path=(key,)) if p.path == ("path",) else p for p in found]
    checks.extend(dict.fromkeys(problems), ("recommend",))
