"""The comparison page in a real Chromium without a network: what it draws, and what it lets a person do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from chromium import needs_chromium, started
from colours import contrast
from samples import interactions

from evalplugin.base.text import escape_controls
from evalplugin.comparison.comparison import compare
from evalplugin.data import Split
from evalplugin.features.data_card.card import DescribedData, card_of, split_card
from evalplugin.features.data_card.feature import card_tab
from evalplugin.features.history.feature import trend_section
from evalplugin.report.page import comparison_page
from evalplugin.report.page.data import contest_data
from evalplugin.report.sections import Section

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, needs_chromium]
PLACE = "http://mlflow.test/"  # served by the test itself: there is no network


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with started() as browser:
        yield browser


@pytest.fixture(scope="module")
def files(contests: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages as files: an ordinary one, one with odd names, one with a tab for every edge."""
    folder = tmp_path_factory.mktemp("pages")
    pages = {
        "plain": [compare(contests.contest(), tests=("t",))],
        "odd": [compare(contests.odd())],
        "edges": [
            compare(contest, pairs="all" if name == "all pairs" else "baseline")
            for name, contest in contests.edges().items()
        ],
    }
    users = np.arange(100, 140)
    binary = [
        contests.compared_model(
            name,
            share,
            users,
            scores=contests.scores((np.arange(40)[:, None] < 40 * share) * 1.0, ["hit@10"], users),
        )
        for name, share in (("base", 0.25), ("knn", 0.5))
    ]
    pages["binary"] = [compare(contests.contest(binary, metrics=("hit@10",)))]
    pages |= {f"{n} models": [compare(contests.crowded(n))] for n in (2, 12)}
    for name, comparisons in pages.items():
        (folder / f"{name}.html").write_text(opened(comparison_page(comparisons)), encoding="utf-8")
    odd = contests.odd()
    nights = contests.past(
        {contests.ODD[0]: 0.3, contests.ODD[1]: 0.5}, {contests.ODD[0]: 0.3, contests.ODD[1]: 0.4}
    )
    nights[0] = replace(nights[0], outcome="promote", promoted=contests.ODD[0])
    here = {"dataset": odd.dataset, "split": odd.split}
    past = [replace(night, models=tuple(replace(m, **here) for m in night.models)) for night in nights]
    data = interactions()
    held_out = np.arange(len(data)) % 4 == 3
    fold = Split(data.select(~held_out), data.select(held_out))
    split = split_card(odd.split, "own", [fold])
    kind = "of a plugin whose name takes more than the width of a phone"
    cards = (card_of(odd.dataset, kind, data, [split]), card_of("another", "csv", data, [split]))
    described = DescribedData(cards, {odd.dataset: "3 interactions in the bake-off <b>x</b>; now 4"})
    sections = [trend_section(lambda: past), Section(tab=partial(card_tab, described))]
    page = comparison_page([compare(odd)], sections)
    (folder / "trend.html").write_text(opened(page), encoding="utf-8")
    (folder / "closed.html").write_text(page, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in (*pages, "trend", "closed")}


def opened(page: str) -> str:
    """Return a page whose parts are open from the start."""
    return page.replace('<details class="part', '<details open class="part')


@pytest.fixture(scope="module")
def tab(chromium: Browser) -> Iterator[SimpleNamespace]:
    context = chromium.new_context(viewport={"width": 1400, "height": 900}, offline=True)
    context.set_default_timeout(60_000)
    page = context.new_page()
    seen = SimpleNamespace(page=page, talk=[], requests=[])
    page.on("console", lambda message: seen.talk.append(message.text))
    page.on("pageerror", lambda error: seen.talk.append(str(error)))
    page.on("dialog", lambda dialog: (seen.talk.append("a dialog"), dialog.dismiss()))
    page.on("request", lambda request: seen.requests.append(request.url))
    yield seen
    context.close()


@pytest.fixture
def visit(tab: SimpleNamespace, files: dict[str, Path]) -> Iterator[Callable[..., Page]]:
    """Opens a page and waits until it is drawn; afterwards nothing may have been complained about or fetched."""
    tab.talk.clear()
    tab.requests.clear()

    def open_page(name: str = "plain", *, width: int = 1400, scheme: Any = "light") -> Page:
        tab.page.set_viewport_size({"width": width, "height": 900})
        tab.page.emulate_media(color_scheme=scheme, media="screen")
        tab.page.goto(files[name].as_uri())
        tab.page.locator("html[data-ready]").wait_for(state="attached")
        return tab.page

    yield open_page
    assert tab.talk == []
    assert set(tab.requests) <= {file.as_uri() for file in files.values()}


def drawn(page: Page, turn: int) -> None:
    """Wait until the figures show what was chosen last."""
    page.locator(f'section.contest:not([hidden])[data-drawn="{turn}"]').wait_for(state="attached")


def texts(page: Page, selector: str) -> list[str]:
    return [" ".join(text.split()) for text in page.locator(selector).all_inner_texts()]


def test_every_chart_is_drawn_with_its_numbers_below(visit: Callable[..., Page]) -> None:
    page = visit()
    marks = {
        "forest": (".mark-symbol path", 2),  # two models against the baseline
        "shares": (".mark-rect path", 2 * 3),
        "distribution": (".mark-line path", 3),
        "at_k": (".mark-line path", 3),
        "precision": (".mark-line path", 3),
        "cost-0": (".mark-symbol path", 3),
        "cost-1": (".mark-symbol path", 3),
        "cost-2": (".mark-symbol path", 3),
        "groups": (".mark-symbol path", 2 * 2),
        "group_differences": (".mark-symbol path", 2),
        "hit_rates": (".mark-line path", 3),
    }
    assert page.locator("figure svg.marks").count() == len(marks)
    for chart, (mark, count) in marks.items():
        figure = page.locator(f'figure[data-chart="{chart}"]')
        assert figure.locator(mark).count() == count, chart
        assert figure.locator("details table tbody tr").count() >= 2, chart
        assert figure.locator('[role="graphics-document"]').get_attribute("aria-label"), chart
    labels = page.locator('figure[data-chart="forest"] .mark-symbol path').first.get_attribute("aria-label")
    assert labels is not None
    assert re.fullmatch(r"knn: \+0\.\d{4} ▲", labels)


def test_the_numbers_of_a_figure_are_those_of_the_comparison(visit, contests):
    page = visit()
    page.locator('figure[data-chart="forest"] summary').click()
    shown = texts(page, 'figure[data-chart="forest"] tbody tr:first-child > *')
    pair = compare(contests.contest(), tests=("t",)).pair("ndcg@10", "knn", "base")
    interval = pair.paired.interval
    assert shown[:4] == [
        "knn",
        f"+{interval.mean:.4f}▲ better than base",  # the words are for screen readers
        f"{interval.low:.4f}",
        f"{interval.high:.4f}",
    ]
    assert shown[-1] == "39"  # users
    assert "p, t" in texts(page, 'figure[data-chart="forest"] thead th')


def test_the_trend_shows_every_night_and_what_was_promoted(visit, contests):
    page = visit("trend")
    figure = page.locator('figure[data-chart="trend"]')
    assert figure.locator(".mark-line path").count() == 2
    assert figure.locator(".mark-area path").count() == 2
    assert figure.locator(".mark-symbol path").count() == 4
    assert "".join(figure.locator("svg .mark-text.role-mark text").all_text_contents()) == "★"
    assert texts(page, ".trend .names li") == [" ".join(contests.ODD[i].split()) for i in (1, 0)]
    figure.locator("summary").click()
    rows = texts(page, 'figure[data-chart="trend"] tbody tr')
    assert len(rows) == 4
    assert rows[0].startswith("bake-off-2 2026-11-02 03:00")
    assert "★ promoted" in rows[3]


def test_tables_are_sorted_by_the_buttons_in_their_heads(visit: Callable[..., Page]) -> None:
    page = visit()
    models = "table.leaderboard tbody .name"
    assert texts(page, models) == ["knn", "base", "svd", "broken"]
    head = page.locator("table.leaderboard thead th", has_text="rmse")
    head.get_by_role("button").click()
    # The smallest error first, what failed last.
    assert texts(page, models) == ["knn", "base", "svd", "broken"]
    assert head.get_attribute("aria-sort") == "ascending"
    head.get_by_role("button").click()
    assert texts(page, models) == ["svd", "base", "knn", "broken"]
    assert head.get_attribute("aria-sort") == "descending"
    page.get_by_role("button", name="model", exact=True).first.click()
    assert texts(page, models) == ["base", "broken", "knn", "svd"]
    assert page.locator("table.leaderboard [aria-sort]").count() == 1
    page.get_by_role("button", name="ndcg@10", exact=True).click()
    assert texts(page, models) == ["knn", "base", "svd", "broken"]  # the best first


def test_the_metric_changes_the_figures(visit: Callable[..., Page]) -> None:
    page = visit()
    forest, users = (page.locator(f'figure[data-chart="{name}"]') for name in ("forest", "distribution"))
    before = forest.locator("svg.marks").inner_html(), users.locator("svg.marks").inner_html()
    page.get_by_label("Metric").select_option("rmse")
    drawn(page, 2)
    assert forest.locator("svg.marks").inner_html() != before[0]
    assert users.locator("svg.marks").inner_html() != before[1]
    assert set(texts(page, ".shown")) == {"rmse"}
    assert "lower is better" in forest.locator("svg.marks").text_content()
    share = page.locator('figure[data-chart="shares"] .mark-rect path').first.get_attribute("aria-label")
    assert share.startswith("knn: ")
    page.get_by_label("Metric").select_option("coverage@10")
    drawn(page, 3)
    assert forest.locator(".empty").inner_text() == "coverage@10 is one number a model; see the leaderboard."
    assert forest.locator("details").is_hidden()


def test_a_chart_that_fails_takes_no_other_down(visit: Callable[..., Page], tab: SimpleNamespace) -> None:
    page = visit()
    page.evaluate("CHARTS.forest.layer[0].mark.type = 'no such mark'")
    page.get_by_label("Metric").select_option("recall@10")
    drawn(page, 2)
    why = page.locator('figure[data-chart="forest"] .empty').inner_text()
    assert why.startswith("This chart could not be drawn: ")
    assert page.locator("figure svg.marks").count() == 10
    assert tab.talk
    tab.talk.clear()


def test_the_model_in_focus_is_drawn_stronger_and_asked_about_groups(visit: Callable[..., Page]) -> None:
    page = visit()
    widest = "lines => lines.map(line => Number(line.getAttribute('stroke-width')))"
    lines = page.locator('figure[data-chart="distribution"] .mark-line path')
    assert max(lines.evaluate_all(widest)) == 3.5
    page.locator(".legend").get_by_role("button", name="svd").click()
    drawn(page, 2)
    assert page.get_by_label("Model in focus").locator("option:checked").inner_text() == "svd"
    assert lines.evaluate_all(widest).count(3.5) == 1
    assert "svd − base" in page.locator('figure[data-chart="group_differences"] svg.marks').text_content()
    page.get_by_label("Model in focus").select_option("base")
    drawn(page, 3)
    why = page.locator('figure[data-chart="group_differences"] .empty')
    assert why.inner_text() == "The model in focus is the baseline: choose another."


def test_gap_and_worst_group_are_shown_for_the_metric_that_is_chosen(visit, contests):
    page = visit("2 models")
    comparison = compare(contests.crowded(2))
    rows = page.locator(".segments [data-metric]:not([hidden]) tbody tr")

    def shown(metric: str) -> list[list[str]]:
        of = {(s.segment, s.model, s.statistic): s for s in comparison.group_statistics if s.metric == metric}
        return [
            [model, *(f"{of[segment, model, kind].value:.4f}" for kind in ("gap", "worst"))]
            for segment, model in dict.fromkeys((segment, model) for segment, model, _ in of)
        ]

    def cells() -> list[list[str]]:
        every = rows.evaluate_all(
            "rows => rows.map(row => [...row.cells].map(cell => cell.innerText.split('\\n')[0].trim()))"
        )
        return [[row[0].removesuffix(" baseline"), row[1].rstrip("▲▼"), row[3].rstrip("▲▼")] for row in every]

    first, second = comparison.contest.metrics[:2]
    assert cells() == shown(first)
    assert len(shown(first)) == 2 * 2  # segments, models
    page.get_by_label("Metric").select_option(second)
    drawn(page, 2)
    assert cells() == shown(second)
    note = page.locator(".segments [data-metric]:not([hidden]) .note").all_inner_texts()
    assert note[0].startswith("gap: the highest mean of a group less the lowest one")


def test_one_user_is_shown_with_both_lists_and_the_hits_marked(visit, contests):
    held = contest_data(compare(contests.contest()))["examples"]
    page = visit()
    people = page.locator("details.people")
    people.locator("select.first").select_option("svd")
    people.locator("select.second").select_option("base")
    users = texts(page, ".losers button.choose")
    values = {user: (held["values"][2][i], held["values"][1][i]) for i, user in enumerate(held["users"])}
    losses = [values[user][1] - values[user][0] for user in users]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] == max(base - svd for svd, base in values.values() if None not in (svd, base))
    people.get_by_role("button", name=users[2], exact=True).click()
    row = held["users"].index(users[2])
    titles = {model: [held["items"][i][1] for i in held["lists"][model]["items"][row]] for model in (1, 2)}
    assert texts(page, ".user > .lists:first-of-type > div:nth-child(1) ol .item") == titles[2]
    assert texts(page, ".user > .lists:first-of-type > div:nth-child(2) ol .item") == titles[1]
    hits = ".user > .lists:first-of-type > div:nth-child(2) li.hit"
    assert texts(page, f"{hits} .item") == [titles[1][rank - 1] for rank in held["hits"][1][row]]
    assert "hit" in page.locator(f"{hits} .tick").first.text_content()
    truth = texts(page, ".user > .lists:nth-of-type(2) > div:first-child tbody tr:first-child > *")
    u = int(users[2]) - 100
    assert truth == [f"Title {u}", "5", "–", "#1"]
    assert texts(page, ".user > .lists:nth-of-type(2) > div:last-child tbody th") == [
        f"Title {(u + 30) % 60}",
        f"Title {(u + 31) % 60}",
    ]
    people.get_by_role("button", name="Swap").click()
    assert people.locator("select.first option:checked").inner_text() == "base"


def test_any_model_can_be_the_reference(visit: Callable[..., Page], contests: SimpleNamespace) -> None:
    every = compare(contests.contest(), pairs="all")
    pair = every.pair("ndcg@10", "knn", "svd")
    assert pair is not None
    page = visit()
    # The leader and its strongest rival.
    assert texts(page, "details.people select option:checked") == ["knn", "base"]
    page.get_by_label("Reference model").select_option("svd")
    drawn(page, 2)
    forest = page.locator('figure[data-chart="forest"]')
    assert f"{pair.paired.interval.mean:+.4f}" in forest.locator("svg.marks").text_content().replace("−", "-")
    page.locator('figure[data-chart="forest"] summary').click()
    assert texts(page, 'figure[data-chart="forest"] tbody th') == ["knn", "base"]


def test_keyboard_reaches_all_controls(visit: Callable[..., Page]) -> None:
    page = visit()
    focused = "[document.activeElement.tagName, document.activeElement.className, document.activeElement.textContent]"

    def tab_to(wanted: Callable[[list[str]], bool]) -> list[str]:
        for _ in range(120):
            page.keyboard.press("Tab")
            now: list[str] = page.evaluate(focused)
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", now
            if wanted(now):
                return now
        raise AssertionError("not reached by Tab")

    tab_to(lambda now: now[2] == "recall@10" and now[0] == "BUTTON")
    page.keyboard.press("Enter")
    assert page.locator("th[aria-sort]").first.inner_text().startswith("recall@10")
    tab_to(lambda now: now[1] == "metric")
    page.keyboard.press("ArrowDown")
    drawn(page, 2)
    assert page.locator(".shown").first.inner_text() == "recall@10"
    tab_to(lambda now: now[0] == "SUMMARY")
    page.keyboard.press("Enter")
    assert page.locator("figure details[open]").count() == 1
    tab_to(lambda now: now[1] == "first")
    page.keyboard.press("End")
    tab_to(lambda now: now[1] == "choose")
    page.keyboard.press("Tab")
    chosen = page.evaluate(focused)[2]
    page.keyboard.press("Enter")
    assert page.locator(".user h4").inner_text().startswith(f"User {chosen}")


def test_odd_names_ids_and_titles_are_shown_as_they_are(visit, contests):
    page = visit("odd")
    shown = set(page.locator("table.leaderboard tbody .name").all_text_contents())
    assert shown == {*map(escape_controls, contests.ODD), "broken <img src=x onerror=alert(1)>"}
    drawn_names = page.locator('figure[data-chart="forest"] .role-axis-label text').all_text_contents()
    assert any(name.startswith("<img src=x") for name in drawn_names)
    assert page.locator("img, script[src], main b b").count() == 0
    for metric in range(1, 5):
        page.get_by_label("Metric").select_option(index=metric)
        drawn(page, metric + 1)
    assert page.locator(".losers button.choose").first.inner_text().strip() != ""
    page.locator('figure[data-chart="forest"]').scroll_into_view_if_needed()
    page.get_by_label("Metric").select_option(index=0)
    drawn(page, 6)
    page.locator('figure[data-chart="forest"] .mark-symbol path').first.hover()
    page.locator("#vg-tooltip-element.visible").wait_for()
    assert page.locator("#vg-tooltip-element img, #vg-tooltip-element script").count() == 0


def test_missing_parts_of_the_page_are_named(visit: Callable[..., Page], contests: SimpleNamespace) -> None:
    """A tab for each edge: all are drawn, none complains."""
    page = visit("edges")
    names = list(contests.edges())
    said = {
        "no baseline": "There is no baseline to compare with.",
        "one model": "It takes two models with a value for every user to show where one lost.",
        "no model": "No model has a value of ndcg@10",
        "overall only": "coverage@10 is one number a model",
        "nothing kept": "knn is behind base for no user.",
        "folds": "Spread over folds",
    }
    for number, name in enumerate(names):
        page.locator(f'input[name=contest][value="{number}"]').check()
        section = page.locator(f"#contest-{number}")
        if name != "no model":
            drawn(page, 1)
        assert page.locator("section.contest:visible").count() == 1
        assert said.get(name, "") in section.inner_text(), name
        if name == "nothing kept":
            section.get_by_role("button", name="Swap").click()
            for missing in ("lists were not kept.", "What was held out is not known", "No history is known"):
                assert missing in section.inner_text()
    rivals = page.locator(f"#contest-{names.index('all pairs')} select.against option")
    assert rivals.all_inner_texts() == ["base", "knn", "svd"]


def test_text_is_readable_in_the_dark(visit: Callable[..., Page]) -> None:
    page = visit(scheme="dark")
    colours = page.evaluate(COLOURS)
    behind = colours.pop("page")
    assert contrast("#FFFFFF", behind) > 15
    for what, colour in colours.items():
        assert contrast(colour, behind) >= 4.4, what
    page.locator("#theme").select_option("light")
    light = page.evaluate(COLOURS)
    assert light["page"] == "#FFFFFF"
    assert contrast(light["axis label"], "#FFFFFF") >= 4.5
    page.locator("#theme").select_option("")
    assert page.evaluate(COLOURS)["page"] == behind


COLOURS = """() => {
  const two = (n) => Number(n).toString(16).padStart(2, '0').toUpperCase();
  const hex = (text) => '#' + text.match(/[0-9]+/g).slice(0, 3).map(two).join('');
  const of = (selector, property) => hex(getComputedStyle(document.querySelector(selector))[property]);
  return {
    page: of('body', 'backgroundColor'),
    text: of('dd', 'color'),
    note: of('.note', 'color'),
    mark: of('.leaderboard .mark.better', 'color'),
    worse: of('.leaderboard .mark.worse', 'color'),
    'axis label': of('figure[data-chart=distribution] .role-axis-label text', 'fill'),
    'model name': of('figure[data-chart=forest] .role-axis-label text', 'fill'),
    'model line': of('figure[data-chart=distribution] .mark-line path', 'stroke'),
    'bar text': of('figure[data-chart=forest] .mark-text text', 'fill'),
    select: of('select.metric', 'color'),
  };
}"""


def test_a_phone_wraps_the_line_of_a_data_card(visit: Callable[..., Page]) -> None:
    page = visit("trend", width=375)
    page.get_by_text("more than the width of a phone").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 375


@pytest.mark.parametrize("name", ["plain", "odd"])
def test_a_phone_scrolls_no_page_sideways(visit: Callable[..., Page], name: str) -> None:
    page = visit(name, width=375)
    for details in page.locator("figure summary").all():
        details.click()
    assert page.evaluate("document.documentElement.scrollWidth") == 375
    wide = page.locator("table.leaderboard")
    assert wide.evaluate("table => table.scrollWidth > table.parentElement.clientWidth")
    for svg in page.locator("figure svg.marks").all():
        box = svg.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 375.5


# Words in the heads of tables that are on two lines.
BROKEN = """() => {
  const found = [];
  for (const head of document.querySelectorAll('thead th')) {
    const texts = document.createTreeWalker(head, NodeFilter.SHOW_TEXT);
    const range = document.createRange();
    for (let node = texts.nextNode(); node; node = texts.nextNode())
      for (const word of node.data.matchAll(/[A-Za-z]+/g)) {
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        if (new Set([...range.getClientRects()].map((line) => Math.round(line.top))).size > 1) found.push(word[0]);
      }
  }
  return found;
}"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280, 1600])
@pytest.mark.parametrize("name", ["plain", "12 models"])
def test_no_width_breaks_words_in_heads_or_scrolls_the_page(visit, name, width):
    page = visit(name, width=width)
    for details in page.locator("figure summary").all():
        details.click()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(BROKEN) == []


# Boxes of text in the charts that touch, those cut by the edge of their chart, and all that is wider than its place
# or than the window without the cue that it can be scrolled.
CROWDED = """() => {
  const found = [];
  const box = (node) => node.getBoundingClientRect();
  for (const node of document.querySelectorAll('body *')) {
    if (node instanceof SVGElement || !node.offsetParent || node.closest('.spoken')) continue;
    const style = getComputedStyle(node);
    const hides = node.clientWidth > 0 && node.scrollWidth > node.clientWidth + 1 && style.overflowX !== 'visible';
    if (hides && style.display !== 'inline' && !node.matches('.more-right, .more-left'))
      found.push(['no cue', node.className]);
    if (box(node).right > document.documentElement.clientWidth + 1 && !node.closest('.scroll'))
      found.push(['beyond the window', node.className]);
  }
  for (const svg of document.querySelectorAll('.plot svg')) {
    const kind = svg.closest('figure').dataset.chart;
    const texts = [...svg.querySelectorAll('text')].filter((text) =>
      text.textContent.trim() && getComputedStyle(text).opacity !== '0' && !text.hasAttribute('stroke'));
    const boxes = texts.map((text) => [text.textContent, box(text)]);
    boxes.forEach(([text, a], i) => {
      if (a.left < box(svg).left - 2 || a.right > box(svg).right + 2) found.push(['cut', kind, text]);
      for (const [other, b] of boxes.slice(0, i)) {
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (across > 1 && down > 2) found.push(['overlap', kind, text, other]);
      }
    });
  }
  return found;
}"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [1300, 900, 400])
@pytest.mark.parametrize("models", [2, 12])
def test_no_label_touches_another_and_what_is_cut_off_says_that_it_scrolls(visit, models, width):
    page = visit(f"{models} models", width=width)
    assert page.evaluate(CROWDED) == []
    board = page.locator('[aria-label="Leaderboard"]')
    hint = board.locator("xpath=following-sibling::p[contains(@class, 'more-hint')]")
    assert hint.inner_text() == "More columns: scroll sideways →"
    board.evaluate("node => { node.scrollLeft = node.scrollWidth; }")
    page.wait_for_selector('[aria-label="Leaderboard"].more-left:not(.more-right)')
    for details in page.locator("figure summary").all():
        details.click()
    page.wait_for_function(f"() => ({CROWDED})().every(([problem]) => problem !== 'no cue')")


def test_page_works_in_a_sandboxed_iframe(tab: SimpleNamespace, files: dict[str, Path]) -> None:
    """As in MLflow's artifact viewer: scripts, and nothing else."""
    tab.talk.clear()
    tab.requests.clear()
    body = files["plain"].read_text(encoding="utf-8")
    frame = '<iframe sandbox="allow-scripts" src="page.html" width="1300" height="800"></iframe>'
    page = tab.page
    page.route(f"{PLACE}**", lambda route: route.fulfill(
        body=body if route.request.url.endswith("page.html") else frame, content_type="text/html"
    ))  # fmt: skip
    page.goto(PLACE)
    inside = page.frame_locator("iframe")
    inside.locator("html[data-ready=yes]").wait_for(state="attached")
    assert inside.locator("figure svg.marks").count() == 11
    inside.get_by_label("Metric").select_option("recall@10")
    inside.locator('section.contest[data-drawn="2"]').wait_for(state="attached")
    inside.locator("#theme").select_option("dark")
    page.unroute(f"{PLACE}**")
    assert tab.talk == []
    assert [url for url in tab.requests if not url.endswith("favicon.ico")] == [PLACE, f"{PLACE}page.html"]


def test_print_shows_all_and_is_light(visit: Callable[..., Page]) -> None:
    page = visit(scheme="dark")
    parts = page.locator("section.contest details[open]").count()
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate(COLOURS)["page"] == "#FFFFFF"
    assert page.locator("section.contest details:not([open])").count() == 0
    assert page.locator(".controls, #theme, .swap").filter(visible=True).count() == 0
    assert page.pdf(format="A4").startswith(b"%PDF")  # tells the page before and after
    assert page.locator("section.contest details[open]").count() == parts


def test_parts_that_were_never_opened_are_printed_with_their_charts(visit: Callable[..., Page]) -> None:
    page = visit("closed")
    page.evaluate(
        "window.addEventListener('afterprint', () => { window.printed ="
        " [...document.querySelectorAll('figure')].filter(f => !f.querySelector('svg.marks, .empty')).length; })"
    )
    page.pdf(format="A4")
    assert page.evaluate("window.printed") == 0


def test_a_page_opens_on_verdict_leaderboard_and_differences(visit: Callable[..., Page]) -> None:
    page = visit("closed")
    assert page.locator("details.part[open]").count() == 0
    assert page.locator("figure svg.marks").count() == 2
    assert page.locator("details.segments > summary .line").inner_text() != ""
    assert page.evaluate("document.documentElement.scrollHeight") < 3000
    page.locator("details.curves > summary").click()
    page.locator('details.curves figure[data-chart="at_k"] svg.marks').wait_for()
    page.locator("select.metric").select_option("1")
    page.locator('section.contest[data-drawn="3"]').wait_for(state="attached")
    assert page.locator("details.curves").get_attribute("open") is not None
    page = visit("closed", width=390)
    assert page.evaluate("document.documentElement.scrollHeight") < 6000


def test_a_closed_part_says_what_it_has_in_one_line(visit: Callable[..., Page]) -> None:
    page = visit()
    heights = page.locator("details.part > summary").evaluate_all(
        "all => all.map(s => [s.innerText, s.offsetHeight])"
    )
    assert [text for text, height in heights if height > 40] == []
    head = page.locator("table.leaderboard thead th button").first
    assert head.evaluate("button => button.offsetHeight") < 30  # the number of the place and how it is sorted


def test_a_phone_shows_the_names_of_groups_whole_and_says_whose_means_they_are(
    visit: Callable[..., Page],
) -> None:
    page = visit(width=390)
    names = page.locator('figure[data-chart="groups"] .role-axis-label text').all_text_contents()
    assert [name for name in names if "…" in name] == []
    assert texts(page, 'figure[data-chart="groups"] .note') == ["of knn base"]


def test_a_long_table_of_a_part_is_scrolled_below_its_head_and_says_so(visit: Callable[..., Page]) -> None:
    page = visit("12 models")
    rows = page.get_by_role("group", name="Overlap of lists")
    assert rows.evaluate("node => [node.clientHeight < 700, node.scrollHeight > 1500]") == [
        True,
        True,
    ]  # 66 pairs
    hint = rows.locator("xpath=following-sibling::p[contains(@class, 'more-hint')]")
    assert hint.inner_text() == "More rows: scroll down ↓"
    rows.evaluate("node => { node.scrollTop = 1000; }")
    assert rows.evaluate("node => node.querySelector('thead th').offsetTop - node.scrollTop") == 0
    page.emulate_media(media="print")
    assert rows.evaluate("node => node.clientHeight") > 1500


def test_the_data_is_shown_when_its_section_is_opened(visit: Callable[..., Page]) -> None:
    page = visit("closed")
    section = page.locator("details.card")
    assert section.locator("svg.marks").count() == 0
    assert not section.locator("dl").is_visible()
    section.locator("summary").first.click()
    section.locator('figure[data-chart="card-ratings"] svg.marks').wait_for()
    assert section.locator("svg.marks").count() == 3
    assert section.locator("p.note").first.inner_text() == "3 interactions in the bake-off <b>x</b>; now 4"
    assert section.locator('figure[data-chart="card-ratings"] .mark-rect path').count() == 5
    assert section.locator('figure[data-chart="card-times"] .mark-rect path').count() == 40
    assert section.locator('figure[data-chart="card-popularity"] .mark-line path').count() == 2


def test_a_page_without_a_card_has_no_section_on_data(visit: Callable[..., Page]) -> None:
    assert visit().locator("details.card").count() == 0


def test_a_metric_of_zeros_and_ones_has_bars(visit: Callable[..., Page]) -> None:
    page = visit("binary")
    figure = page.locator('figure[data-chart="distribution"]')
    assert figure.locator(".mark-rect path").count() == 4
    labels = figure.locator(".mark-rect path").evaluate_all(
        "all => all.map((p) => p.getAttribute('aria-label'))"
    )
    assert labels == ["knn: 50 %", "knn: 50 %", "base: 25 %", "base: 75 %"]
