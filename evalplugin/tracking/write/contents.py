"""The log items of a model's run and of the summary run."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product

from evalplugin.base.text import cut
from evalplugin.comparison.compared import Cell, ComparedModel, metric_cells
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.groups import GroupStatistic
from evalplugin.execution.results import Finding, ModelResult, Plan
from evalplugin.files.inputs import Inputs
from evalplugin.metrics.moments import mean_of_defined
from evalplugin.report.competition import facts_of, findings_on
from evalplugin.report.documents import leaderboard_markdown
from evalplugin.report.page import comparison_page
from evalplugin.report.render.markdown import escape
from evalplugin.report.run_summary import note_markdown
from evalplugin.report.sections import Section
from evalplugin.report.sentences.units import ranking_basis
from evalplugin.report.sentences.verdict import verdict
from evalplugin.tracking.names import (
    MAX_KEY_LENGTH,
    MAX_RUN_NAME,
    MAX_TAG,
    metric_names,
    model_keys,
    shorten_value,
)
from evalplugin.tracking.write.artifacts import (
    TABLE,
    config_artifacts,
    differences_artifacts,
    model_artifacts,
)
from evalplugin.tracking.write.board import PAGE, Links
from evalplugin.tracking.write.items import Artifact, Datum, Item, Metric, Tag
from evalplugin.tracking.write.labels import (
    TABLES,
    checks_datum,
    dataset_inputs,
    model_params,
    summary_params,
)

_INPUTS = "data/inputs.json"
_BEST = "evalplugin.may_be_best"
# Each value of a metric takes as long to write and to read as a run's tags, and a curve of few points looks the same.
# The table of users has all values.
_MOST_VALUES = 250  # of a run, if its metrics are not very many
_PERCENTILES = range(0, 101, 5)
_FEWEST_POINTS = 5  # of a curve of percentiles
_OF_DIFFERENCE = 5  # values of a metric's difference from the baseline, which are logged later
_OF_GROUPS = 10  # of a segmentation's gap and worst group, which are logged later too
_MOST_OF_LEADERS = 6  # metrics of datasets and splits, six values each: below 40 in all
_NOTE = "mlflow.note.content"  # Markdown that MLflow shows as a run's description


def model_items(plan: Plan, result: ModelResult) -> Iterator[Item]:
    """Yield the items of a model's run besides its identifying tags, and the pictures, which need all models."""
    specs = [plan.spec(metric) for metric in plan.headline]
    cells = metric_cells(result.per_user, specs, plan.seed, seed_means=result.seed_means)
    yield from model_metrics(plan, result, cells)
    yield from model_params(plan, result)[0]
    yield Tag(_NOTE, note_markdown(plan, result, cells))
    if result.notes:
        yield Datum("warnings", [*result.shown_notes])
    if plan.given and result.data.notes:
        yield Datum("notes", [*result.data.notes])
    if result.per_user is not None:
        yield Tag(TABLES, json.dumps([{"path": TABLE, "type": "table"}]))
    yield from dataset_inputs(result.data)
    yield from model_artifacts(plan, result, cells)


def summary_name(comparisons: Sequence[Comparison]) -> str:
    """Return the name of the summary run: the verdict, or how many of several the most frequent leader leads."""
    if len(comparisons) == 1:
        return cut(verdict(comparisons[0]).name, MAX_RUN_NAME)
    leaders = Counter(c.may_be_best[0] for c in comparisons if c.may_be_best)
    if not leaders:
        return "nothing to decide"
    ((leader, leads),) = leaders.most_common(1)
    decided = sum(c.may_be_best == (leader,) for c in comparisons)
    datasets, splits = (
        len(set(names)) for names in zip(*(c.contest.place for c in comparisons), strict=True)
    )
    what = "splits" if datasets == 1 else "datasets" if splits == 1 else "datasets and splits"
    end = f" leads {leads} of {len(comparisons)} {what}, {decided or 'none'} decided"
    return cut(leader, MAX_RUN_NAME - len(end)) + end


def summary_items(
    plan: Plan, comparisons: Sequence[Comparison], links: Links, sections: Iterable[Section] = ()
) -> Iterator[Item]:
    """Yield the items of a summary run besides its identifying tags.

    Args:
        plan: Of the bake-off.
        comparisons: One for each dataset and split.
        links: To the board and the compare page.
        sections: What features add to the leaderboard.
    """
    sections = list(sections)
    yield from summary_metrics(plan, comparisons)
    yield from summary_params(plan)
    statements = [section.statement for section in sections if section.statement is not None]
    gated = {statement.place for statement in statements}
    paragraphs = [f"**{escape(statement.title)}.** {escape(statement.reason)}" for statement in statements]
    for comparison in comparisons:
        where = f"{escape(str(comparison.contest.place))}: " if len(comparisons) > 1 else ""
        decided = verdict(comparison)
        lines = decided.lines(is_gated=comparison.contest.place in gated)
        paragraphs.append(where + escape(" ".join([decided.headline, *lines])))
    leaderboard = "\n\n".join([*paragraphs, leaderboard_markdown(plan, comparisons, sections)])
    boards = dict(zip([f"Board of {c.contest.place}" for c in comparisons], links.board_urls, strict=False))
    pages = {**(boards if len(boards) > 1 else {"Board": links.board_url}), "Compare": links.compare_url}
    line = " · ".join(f"[{escape(name)}]({url})" for name, url in pages.items() if url is not None)
    yield Tag(_NOTE, f"{leaderboard}\n{line}")
    # A list, or lists by dataset and split.
    may_be_best = {str(c.contest.place): c.may_be_best for c in comparisons}
    shown = may_be_best if len(may_be_best) > 1 else comparisons[0].may_be_best
    best = json.dumps(shown, ensure_ascii=False)
    if len(best) <= MAX_TAG:  # shortened it would be no JSON
        yield Tag(_BEST, best)
    yield from config_artifacts(plan)
    yield Artifact("leaderboard.md", leaderboard)
    yield from differences_artifacts(comparisons)


def standing_items(
    plan: Plan, comparison: Comparison, row: ComparedModel, further: Sequence[Finding] = ()
) -> Iterator[Item]:
    """Yield the items of a model's run that need all models: differences, place, whether it may be the best, findings.

    The findings are on its data, and of ``further`` ones those on its own results and on all models together.
    """
    yield from difference_metrics(plan, row)
    yield from shared_metrics(plan, comparison, row)
    yield from group_metrics(plan, comparison, row)
    if findings := [f for f in findings_on(comparison.contest, further) if f.model in (None, row.model)]:
        yield checks_datum(findings)
    if row.rank is not None:
        yield Tag("evalplugin.place", str(row.rank))
    if row.error is None and comparison.may_be_best:
        yield Tag(_BEST, "yes" if row.model in comparison.may_be_best else "no")


def page_artifact(comparisons: Sequence[Comparison], sections: Sequence[Section] = ()) -> Artifact:
    """Return the comparison page."""
    return Artifact(PAGE, comparison_page(comparisons, sections))


def inputs_files(inputs: Inputs) -> Iterator[Artifact]:
    """Yield the table of the files and other inputs that the models have used, if there are any."""
    if inputs:
        rows = [{"input": name, "fingerprint": value} for name, value in sorted(inputs.items())]
        # As bytes, which are not redacted: names are without credentials, and must stay as they are.
        yield Artifact(_INPUTS, json.dumps(rows, indent=1).encode())


def model_metrics(plan: Plan, result: ModelResult, cells: Mapping[str, Cell]) -> Iterator[Metric | Datum]:
    """Yield every metric of a model's run, and the keys of undefined ones."""
    metrics = list(_model_metrics(plan, result, cells))
    yield from _finite_metrics(metrics)
    if left_out := dict.fromkeys(m.key for m in metrics if not math.isfinite(m.value)):
        yield Datum("left_out", ", ".join(left_out))


def _finite_metrics(metrics: Iterable[Metric]) -> Iterator[Metric]:
    """Yield the metrics that can be logged: NaN and infinity break MLflow's filters, so their number is logged."""
    left_out = 0
    for metric in metrics:
        if math.isfinite(metric.value):
            yield metric
        else:
            left_out += 1
    if left_out:
        yield Metric("undefined/values_left_out", left_out)


def _model_metrics(plan: Plan, result: ModelResult, cells: Mapping[str, Cell]) -> Iterator[Metric]:
    numbers = list(_numbers(plan, result, cells))
    yield from numbers
    names = metric_names(plan.metrics)
    spread = {
        names[metric]: cell.summary for metric, cell in cells.items() if cell.summary and cell.summary.n
    }
    left = _MOST_VALUES - len(numbers) - _OF_DIFFERENCE * len(spread) - _OF_GROUPS * len(result.data.segments)
    for name, summary in spread.items():
        curve = [(float(percentile), float(summary.quantiles[percentile])) for percentile in _PERCENTILES]
        for percentile, value in simplified(curve, max(_FEWEST_POINTS, left // len(spread))):
            yield Metric(f"per_user_quantile/{name}", value, int(percentile))


def simplified(points: Sequence[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """Return at most so many points of a line, both ends among them: one by one, the least needed ones go."""
    kept = [*points]
    while len(kept) > max(2, most):
        triangles = zip(kept, kept[1:], kept[2:], strict=False)
        areas = [abs((c[0] - a[0]) * (b[1] - a[1]) - (b[0] - a[0]) * (c[1] - a[1])) for a, b, c in triangles]
        del kept[1 + areas.index(min(areas))]
    return kept


def _numbers(plan: Plan, result: ModelResult, cells: Mapping[str, Cell]) -> Iterator[Metric]:
    """Yield all metrics besides the curves of percentiles."""
    names = metric_names(plan.metrics)
    # The most important first: MLflow's run page keeps the order.
    for metric, cell in cells.items():
        yield Metric(names[metric], cell.mean)
    if (primary := cells.get(plan.primary)) is not None:
        yield Metric("users", primary.users)
        yield Metric("users_undefined", primary.undefined)
    if (tuning := result.tuning) is not None:
        yield Metric("tune/validation", tuning.validation)
        yield Metric("tune/defaults", tuning.defaults)
        if result.error is None:
            yield Metric("tune/optimism", result.optimism)
        for state in ("done", "dropped", "failed"):
            yield Metric(f"tune/trials_{state}", tuning.count(state))
        yield Metric("tune/seconds", tuning.seconds)
    if (costs := result.costs) is not None:
        for cost in ("fit_seconds", "recommend_seconds", "start_seconds", "score_seconds", "peak_memory_mb"):
            yield Metric(f"cost/{cost}", getattr(costs, cost))
    for metric, cell in cells.items():
        if cell.undefined:
            yield Metric(f"undefined/{names[metric]}", cell.undefined)
    for metric, cell in cells.items():
        yield from _spread(names[metric], cell)
    if (scores := result.per_user) is not None:
        curves = metric_names(scores.at_k)
        for family, curve in scores.at_k.items():
            yield from (Metric(f"at_k/{curves[family]}", value, k) for k, value in sorted(curve.items()))
        precision = sorted(scores.pr_curve.items())
        yield from (Metric("pr_curve/precision", value, percent) for percent, value in precision)
    if len(result.fold_means) > 1:
        for fold, means in enumerate(result.fold_means, start=1):
            yield from (Metric(f"fold/{names[m]}", v, fold) for m, v in means.items() if m in names)
    for seed, means in enumerate(result.seed_means, start=1):
        yield from (Metric(f"seed/{names[m]}", v, seed) for m, v in means.items() if m in names)
    for metric, cell in cells.items():
        if cell.seeds is not None:
            yield Metric(f"seed_sd/{names[metric]}", cell.seeds.sd)
        if math.isfinite(cell.seed_share):
            yield Metric(f"seed_share/{names[metric]}", cell.seed_share)
    yield from _segment_metrics(plan, result)


def _spread(name: str, cell: Cell) -> Iterator[Metric]:
    """Yield the interval and the distribution of a metric; nothing where no user has a value."""
    if (s := cell.summary) is None or not s.n:
        return
    yield Metric(f"ci/{name}.low", cell.low)
    yield Metric(f"ci/{name}.high", cell.high)
    for part in ("p10", "p50", "p90", "std", "zero_share"):
        yield Metric(f"dist/{name}.{part}", getattr(s, part))
    if cell.clusters is not None:
        yield Metric(f"dist/{name}.clusters", cell.clusters)
        if math.isfinite(cell.design_effect):
            yield Metric(f"dist/{name}.design_effect", cell.design_effect)
    if (mean := cell.over_clusters) is not None:
        yield Metric(f"dist/{name}.cluster_mean", mean.mean)
        yield Metric(f"dist/{name}.cluster_mean_low", mean.low)
        yield Metric(f"dist/{name}.cluster_mean_high", mean.high)


def _segment_metrics(plan: Plan, result: ModelResult) -> Iterator[Metric]:
    """Yield the primary metric's mean in each group of users, and the number of users it is over."""
    name = metric_names(plan.metrics)[plan.primary]
    # The separator is in neither name, so that all are different.
    scores = {
        f"{segment}\0{label}": values
        for segment, groups in result.by_group(plan.primary).items()
        for label, values in groups.items()
    }
    for group, key in model_keys(scores).items():
        # All below one prefix: MLflow's page makes a section of each, and there are many groups.
        yield Metric(f"segment/users.{key}", len(scores[group]))
        if len(scores[group]):
            mean = mean_of_defined(scores[group])
            yield Metric(_shortened(f"segment/{name}.{key}"), mean)


def _shortened(key: str) -> str:
    return shorten_value(key, MAX_KEY_LENGTH - len(".high"))


def difference_metrics(plan: Plan, row: ComparedModel) -> Iterator[Metric]:
    """Yield a model's paired differences from the baseline, for its own run."""
    names = metric_names(plan.metrics)
    return _finite_metrics(
        value
        for metric, cell in row.cells.items()
        for value in _difference(f"vs_baseline/{names[metric]}", cell)
    )


def shared_metrics(plan: Plan, comparison: Comparison, row: ComparedModel) -> Iterator[Metric]:
    """Yield the means by which a model is ranked, where these are over fewer users than some model has."""
    names = metric_names(plan.metrics)
    return _finite_metrics(
        Metric(f"shared/{names[metric]}", cell.mean)
        for metric, cell in row.cells.items()
        if ranking_basis(comparison, metric) and cell.users
    )


def group_metrics(plan: Plan, comparison: Comparison, row: ComparedModel) -> Iterator[Metric]:
    """Yield a model's gap between groups of users and its worst group by the primary metric, for its own run."""
    name = metric_names(plan.metrics)[plan.primary]
    segments = model_keys(segmentation.name for segmentation in comparison.contest.segments)
    return _finite_metrics(
        value
        for statistic in comparison.group_statistics
        if (statistic.metric, statistic.model) == (plan.primary, row.model)
        for value in _group_statistic(f"segment/{name}.{segments[statistic.segment]}", statistic)
    )


def _group_statistic(prefix: str, statistic: GroupStatistic) -> Iterator[Metric]:
    key = f"{prefix}.{statistic.statistic}"
    yield Metric(key, statistic.value)
    yield Metric(f"{key}_low", statistic.low)
    yield Metric(f"{key}_high", statistic.high)
    if (difference := statistic.difference) is not None:
        yield Metric(f"{key}_vs_baseline", difference.value)
        yield Metric(f"{key}_vs_baseline_p_holm", statistic.p_holm)


def summary_metrics(plan: Plan, comparisons: Sequence[Comparison]) -> Iterator[Metric]:
    """Yield the metrics of the summary run, few enough to chart over nights: leader and baseline, costs, counts.

    All metrics that fit for every dataset and split, the primary one first.
    """
    rows = [(c.contest, row) for c in comparisons for row in c.models]
    costs = [cost for contest, row in rows if (cost := facts_of(contest, row.model).costs) is not None]
    yield Metric("models", len(rows))
    yield Metric("models_failed", sum(row.error is not None for _, row in rows))
    if costs:
        yield Metric(
            "cost/seconds", sum(c.fit_seconds + c.recommend_seconds + c.score_seconds for c in costs)
        )
    keys = model_keys(" ".join(filter(None, c.contest.place)) for c in comparisons).values()
    places = [(c, f".{key}" if len(keys) > 1 else "") for c, key in zip(comparisons, keys, strict=True)]
    metrics = plan.headline[: max(1, _MOST_OF_LEADERS // len(places))]
    for metric, (comparison, place) in islice(product(metrics, places), _MOST_OF_LEADERS):
        values = _leader_metrics(comparison, metric, metric_names(plan.metrics)[metric], place)
        yield from (value for value in values if math.isfinite(value.value))


def _leader_metrics(comparison: Comparison, metric: str, name: str, place: str) -> Iterator[Metric]:
    """Yield the means of the leader and the baseline by a metric, and their difference."""
    for row in comparison.models:
        if (cell := row.cells.get(metric)) is None:
            continue
        if row is comparison.models[0]:
            yield Metric(_shortened(f"leader/{name}{place}"), cell.mean)
            if metric == comparison.contest.primary:
                yield Metric(f"users{place}", cell.users)
            yield from islice(_difference(_shortened(f"difference/{name}{place}"), cell), 3)
        if row.is_baseline:
            yield Metric(_shortened(f"baseline/{name}{place}"), cell.mean)


def _difference(key: str, cell: Cell) -> Iterator[Metric]:
    if (pair := cell.difference) is None:
        return
    interval = pair.paired.interval
    yield Metric(key, interval.mean)
    yield Metric(f"{key}.low", interval.low)
    yield Metric(f"{key}.high", interval.high)
    yield Metric(f"{key}.p", pair.p)
    yield Metric(f"{key}.p_holm", pair.p_holm)
