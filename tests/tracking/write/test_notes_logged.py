"""What a model says of its lists: in its run, in the terminal, and in a comparison that is made later."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest
from bakeoffs import run_bakeoff
from samples import bakeoff, model_result, small_config

import evalplugin
from evalplugin.execution.observer import Observer
from evalplugin.features.config import load
from evalplugin.tracking.names import MAX_TAG
from evalplugin.tracking.write.contents import model_items
from evalplugin.tracking.write.items import Tag

URI = "sqlite:///mlflow.db"


class Warnings(Observer):
    """An observer that records its warnings."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def warn(self, text: str) -> None:
        self.found.append(text)


@pytest.mark.usefixtures("store", "no_drawing")
@pytest.mark.slow
def test_notes_of_a_model_are_logged_and_read_back() -> None:
    pd.DataFrame({"user": [-1, 1], "item": [1, 2], "rank": [1, 1]}).to_csv("lists.csv", index=False)
    models = ["random", {"name": "vendor", "type": "lists", "params": {"path": "lists.csv"}}, "popularity"]
    # The lists are nearly empty, which checks find too; this is about what the model says itself.
    config = small_config(models=models, checks={"ignore": ["EV101", "EV103", "EV106"]})
    observer = Warnings()
    outcome = run_bakeoff(load(config), tracking_uri=URI, observer=observer)
    noted = [f"tiny: vendor: {note}" for note in outcome.models[1].notes]
    assert len(noted) == 3
    assert noted[0] == "tiny: vendor: left out: 1 user that the data does not have, such as -1"
    assert observer.found == noted
    assert [w for w in outcome.comparisons[0].contest.warnings if "vendor" in w] == noted
    (comparison,) = evalplugin.compare(tracking_uri=URI).comparisons
    assert comparison.contest.warnings == outcome.comparisons[0].contest.warnings
    again = Warnings()  # from the cache
    run_bakeoff(load(config), tracking_uri=URI, observer=again)
    assert again.found == noted


def logged(notes: list[str]) -> Any:
    result = model_result("vendor", notes=tuple(notes))
    (tag,) = (i for i in model_items(bakeoff(), result) if isinstance(i, Tag) and i.key.endswith("warnings"))
    assert len(tag.value) <= MAX_TAG
    return json.loads(tag.value)


def test_warnings_that_a_tag_has_no_room_for_are_counted() -> None:
    assert logged(["a", "b"]) == ["toy: vendor: a", "toy: vendor: b"]
    found = logged([f"{'long' * 250} {number}" for number in range(20)])
    assert found[0].endswith(" 0")
    assert found[-1] == f"{20 - (len(found) - 1)} more warnings are in summary.md"
