"""What a model says of its lists: in its run, in the terminal, and in a comparison that is made later."""

from __future__ import annotations

import pandas as pd
import pytest
from bakeoffs import run_bakeoff
from samples import bakeoff, model_result, small_config

import evalplugin
from evalplugin.execution.observer import Observer
from evalplugin.features.config import load
from evalplugin.tracking.write.contents import model_items
from evalplugin.tracking.write.items import Datum

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


def test_all_warnings_are_logged() -> None:
    items = model_items(bakeoff(), model_result("vendor", notes=("a", "b")))
    assert Datum("warnings", ["toy: vendor: a", "toy: vendor: b"]) in list(items)
