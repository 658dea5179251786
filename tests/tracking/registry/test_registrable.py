"""Which models can be registered: those that can be fitted, or run, on all data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from samples import interactions, small_config, write_config

from evalplugin.base.errors import ConfigError
from evalplugin.config import ModelRecipe
from evalplugin.config.sections import Recommend
from evalplugin.features.config import load
from evalplugin.tracking.registry.served import make_lists

GATED: dict[str, Any] = {"gate": {}, "register": {"name": "shop"}, "compare": {"baseline": "random"}}
LISTS = {"name": "vendor", "type": "lists", "params": {"run": "0" * 32}}
DEPLOYED = {"name": "deployed", "type": "mlflow", "params": {"model": "models:/shop@champion"}}


def config(*models: Any, **changes: Any) -> Path:
    file = Path("shop.yaml")
    write_config(small_config(models=["random", "popularity", *models], **{**GATED, **changes}), file)
    return file


@pytest.mark.parametrize("model", [LISTS, DEPLOYED], ids=["lists", "mlflow"])
def test_what_learns_nothing_cannot_be_registered(model: dict[str, Any]) -> None:
    with pytest.raises(
        ConfigError,
        match=rf"shop.yaml:\d+:\d+: models\[2\].type: '{model['type']}' learns nothing, so that it cannot be fitted on "
        r"all data and registered as shop, if the gate promotes it: name the other models under gate.challengers",
    ):
        load(config(model))


@pytest.mark.parametrize(
    "changes",
    [{"gate": {"challengers": ["popularity"]}}, {"register": None}],
    ids=["not a challenger", "no register"],
)
def test_it_takes_part_where_it_is_not_to_be_registered(changes: dict[str, Any]) -> None:
    sections = {**GATED, **changes}
    file = config(LISTS, DEPLOYED)
    content = yaml.safe_load(file.read_text()) | sections
    if content["register"] is None:
        del content["register"]
        content["gate"] = {"champion": "deployed"}
    write_config(content, file)
    assert [model.name for model in load(file).models] == ["random", "popularity", "vendor", "deployed"]


def test_a_program_is_run_on_all_data_in_the_folder_of_the_config() -> None:
    Path("shop").mkdir()
    Path("shop/first.py").write_text(
        "import sys, pyarrow as pa, pyarrow.parquet as pq\n"
        "users = pq.read_table(sys.argv[1])['user'].to_pylist()\n"
        "pq.write_table(pa.table({'user': users, 'item': [0] * len(users), 'rank': [1] * len(users)}), sys.argv[2])\n"
    )
    params = {"command": [sys.executable, "first.py", "{users}", "{out}"]}
    served = make_lists(
        ModelRecipe("first", "command", params),
        interactions(),
        Recommend(n=2, candidates="all"),
        seed=1,
        folder=Path("shop").absolute(),
    )
    assert served.top_n.item[:, 0].tolist() == [0] * len(served.users)
