"""The log items of a model's run and of the summary run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from evalplugin.comparison.compared import ComparedModel, metric_cells
from evalplugin.comparison.comparison import Comparison
from evalplugin.execution.results import Bakeoff, ModelResult
from evalplugin.files.inputs import Inputs
from evalplugin.report.markdown import escape, leaderboard_markdown
from evalplugin.report.page import comparison_page
from evalplugin.report.run_summary import note_markdown
from evalplugin.report.sections import Section
from evalplugin.report.verdict import verdict, verdict_sentence
from evalplugin.tracking.names import MAX_KEY_LENGTH, MAX_TAG, shorten_value
from evalplugin.tracking.write.artifacts import TABLE, config_artifacts, model_artifacts
from evalplugin.tracking.write.items import Artifact, Item, Tag
from evalplugin.tracking.write.labels import (
    dataset_inputs,
    findings_tag,
    model_params,
    summary_params,
    table_tag,
    warnings_tag,
)
from evalplugin.tracking.write.links import PAGE, Links
from evalplugin.tracking.write.metrics import difference_metrics, model_metrics, summary_metrics

__all__ = [
    "INPUTS",
    "inputs_files",
    "model_items",
    "page_artifact",
    "standing_items",
    "summary_items",
    "summary_name",
]

INPUTS = "data/inputs.json"
_BEST = "evalplugin.may_be_best"
_NOTE = "mlflow.note.content"  # Markdown that MLflow shows as a run's description


def model_items(bakeoff: Bakeoff, result: ModelResult) -> Iterator[Item]:
    """Yield everything about a model but the tags it is found by, and the pictures, which need all models."""
    cells = metric_cells(result.per_user, bakeoff.headline, bakeoff.seed, seed_means=result.seed_means)
    yield from model_metrics(bakeoff, result, cells)
    yield from model_params(bakeoff, result)[0]
    yield Tag(_NOTE, note_markdown(bakeoff, result, cells))
    if result.notes:
        yield warnings_tag(result.shown_notes)
    if result.per_user is not None:
        yield table_tag(TABLE)
    yield from dataset_inputs(result.data)
    yield from model_artifacts(bakeoff, result, cells)


def summary_name(comparisons: Sequence[Comparison]) -> str:
    """Return the name of the summary run, which begins with the leading model, of each dataset and split."""
    names = [
        verdict(c).headline + (f" on {c.contest.place}" if len(comparisons) > 1 else "") for c in comparisons
    ]
    return shorten_value("; ".join(names), MAX_KEY_LENGTH)


def summary_items(
    bakeoff: Bakeoff, comparisons: Sequence[Comparison], links: Links, sections: Iterable[Section] = ()
) -> Iterator[Item]:
    """Yield the items of a summary run besides the tags it is found by.

    Args:
        bakeoff: The bake-off.
        comparisons: One for each dataset and split.
        links: To the board and the compare page.
        sections: What features add to the leaderboard.
    """
    sections = list(sections)
    yield from summary_metrics(bakeoff, comparisons)
    yield from summary_params(bakeoff)
    statements = [section.statement for section in sections if section.statement is not None]
    paragraphs = [f"**{escape(statement.title)}.** {escape(statement.reason)}" for statement in statements]
    for comparison in comparisons:
        where = f"{escape(str(comparison.contest.place))}: " if len(comparisons) > 1 else ""
        paragraphs.append(where + escape(verdict_sentence(comparison, comparison.contest.primary)))
    leaderboard = "\n\n".join([*paragraphs, leaderboard_markdown(bakeoff, comparisons, sections)])
    pages = {"Board": links.board_url, "Compare": links.compare_url}
    line = " · ".join(f"[{name}]({url})" for name, url in pages.items() if url is not None)
    yield Tag(_NOTE, f"{leaderboard}\n{line}")
    # A list, or lists by dataset and split.
    may_be_best = {str(c.contest.place): c.may_be_best for c in comparisons}
    best = json.dumps(
        may_be_best if len(may_be_best) > 1 else next(iter(may_be_best.values())), ensure_ascii=False
    )
    if len(best) <= MAX_TAG:  # shortened it would be no JSON
        yield Tag(_BEST, best)
    yield Tag("evalplugin.board", links.board_url_path)
    # A link to very many runs would be shortened and lead nowhere.
    if links.compare_url_path is not None and len(links.compare_url_path) <= MAX_TAG:
        yield Tag("evalplugin.compare", links.compare_url_path)
    yield from config_artifacts(bakeoff)
    yield Artifact("leaderboard.md", leaderboard)


def standing_items(bakeoff: Bakeoff, comparison: Comparison, row: ComparedModel) -> Iterator[Item]:
    """Yield what a model's run holds once all models are compared: differences, whether it may be the best, findings.

    The findings are on its data, on its own results and on all models together.
    """
    yield from difference_metrics(bakeoff, row)
    if findings := [f for f in comparison.contest.findings if f.model in (None, row.model)]:
        yield findings_tag(findings)
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
        yield Artifact(INPUTS, json.dumps(rows, indent=1).encode())
