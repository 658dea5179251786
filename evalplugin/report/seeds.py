"""Words on seeds: who was fitted how often, what another seed gives, differences that are smaller."""

from __future__ import annotations

import math

from evalplugin.base.numbers import UNDEFINED, number, percent, share
from evalplugin.comparison.compared import ComparedModel, Pair
from evalplugin.comparison.comparison import Comparison

__all__ = ["seed_lines", "seed_range", "seed_texts"]


def seed_lines(comparison: Comparison) -> list[str]:
    """Return lines on seeds: the models of several, those fitted once, and small differences; none for one seed."""
    if comparison.n_seeds == 1:
        return []
    done = [row for row in comparison.models if row.error is None]
    repeated = [row.model for row in done if row.seed_means]
    once = [row.model for row in done if not row.seed_means]
    lines = [
        f"Fitted with {comparison.n_seeds} seeds: {', '.join(repeated)}. Means are over all of them; intervals and "
        f"tests take in what other seeds give."
    ]
    if once:
        lines[0] += f" Fitted once, as no random numbers decide them, or always the same: {', '.join(once)}."
    metric = comparison.contest.primary
    if texts := [text for row in done if (text := _of_model(row, metric))]:
        lines.append(f"{metric} from seed to seed (standard deviation): {', '.join(texts)}.")
    if small := [
        f"{pair.model} against {pair.against} (±{number(pair.seed_range)})"
        for pair in comparison.pairs
        if pair.metric == metric and pair.is_within_seeds
    ]:
        lines.append(
            f"Smaller than what another seed gives ({percent(comparison.level)}, one fit of each): {', '.join(small)}."
        )
    return lines


def seed_range(pair: Pair) -> str:
    """Return the end of a sentence on a difference that is smaller than what another seed gives; else nothing."""
    return (
        f"; smaller than what another seed gives (±{number(pair.seed_range)})" if pair.is_within_seeds else ""
    )


def seed_texts(row: ComparedModel, metric: str) -> tuple[str, str]:
    """Return the lowest and highest mean of a seed, and the seeds' share of the variance of the mean."""
    if not row.seed_means:
        return "one fit", ""
    means = [seed.get(metric, math.nan) for seed in row.seed_means]
    if not all(map(math.isfinite, means)):
        return UNDEFINED, ""
    part = row.cells[metric].seed_share if metric in row.cells else math.nan
    of_variance = f"{share(part)} of variance" if math.isfinite(part) else ""
    return f"{number(min(means))}–{number(max(means))}", of_variance


def _of_model(row: ComparedModel, metric: str) -> str:
    cell = row.cells.get(metric)
    if cell is None or cell.seeds is None:
        return ""
    part = f", {share(cell.seed_share)} of the variance of its mean" if math.isfinite(cell.seed_share) else ""
    return f"{row.model} {number(cell.seeds.sd)}{part}"
