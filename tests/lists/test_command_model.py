from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import evalplugin
from evalplugin.base.errors import ConfigError, ModelError
from evalplugin.config import load
from evalplugin.models import MODELS
from evalplugin.testing import check_recommender

POPULAR = """
import sys
import pyarrow as pa, pyarrow.compute as pc, pyarrow.parquet as pq
train, users, candidates, out, n = sys.argv[1:]
counts = pq.read_table(train)["item"].value_counts().to_pylist()
best = [c["values"] for c in sorted(counts, key=lambda c: (-c["counts"], c["values"]))]
ids = pq.read_table(users)["user"].to_pylist()
pq.write_table(pa.table({"user": [u for u in ids for _ in best], "item": best * len(ids),
                         "rank": list(range(1, len(best) + 1)) * len(ids)}), out)
"""
PYTHON = sys.executable
CONFIG = {
    "experiment": "shop",
    "datasets": [{"type": "synthetic", "n_users": 60, "n_items": 50, "n_interactions": 1500}],
    "split": {"type": "last_n", "n": 3},
    "relevance": {"threshold": 4},
    "recommend": {"n": 10},
    "metrics": ["ndcg@10", "recall@10"],
}


@pytest.mark.filterwarnings("ignore:.* listed items are no candidates")
def test_a_program_of_another_process_makes_the_lists_of_popularity(store: Path) -> None:
    Path("popular.py").write_text(POPULAR)
    command = [PYTHON, "popular.py", "{train}", "{users}", "{candidates}", "{out}", "{n}"]
    outcome = evalplugin.run(
        {
            **CONFIG,
            "models": ["popularity", {"name": "theirs", "type": "command", "params": {"command": command}}],
        },
        tracking_uri="sqlite:///mlflow.db",
    )
    ours, theirs = outcome.result.models
    assert theirs.error is None
    assert ours.per_user.means == theirs.per_user.means
    assert ours.top_n.select(["user", "item", "rank"]) == theirs.top_n.select(["user", "item", "rank"])


def run(command: list[str]):
    from evalplugin.data import Candidates
    from evalplugin.models import recommend
    from evalplugin.testing.model import checkerboard

    data = checkerboard()
    model = MODELS.create("command", {"command": command})
    model.fit(data, np.random.default_rng(0))
    users = np.arange(data.n_users, dtype=np.int32)
    return recommend(model, users, 5, Candidates("unseen", excluded=data.rows), data.n_items, data=data)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "echo reading; echo 'no model' >&2; exit 3",
            r"failed with exit code 3; the end of its output:\n  reading\n  no model$",
        ),
        ("exit 1", "failed with exit code 1; it printed nothing$"),
        ("kill -9 $$", "was ended by signal 9"),
        ("echo done", "ended without writing {out}; the end of its output:\n  done$"),
        ("echo text > {out}", "out.parquet: cannot be read: it is not Parquet but text"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_told_with_the_end_of_its_output(script: str, message: str) -> None:
    with pytest.raises(evalplugin.base.errors.EvalpluginError, match=message):
        run(["sh", "-c", script if "{out}" in script else f"{script} # {{out}}"])


def test_a_program_that_is_gone_is_an_error_of_the_model() -> None:
    with pytest.raises(ModelError, match="there is no program 'no-such-program'"):
        run(["no-such-program", "{out}"])


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("[no-such-program, '{out}']", "7:49: models[1].params.command[0]: there is no program 'no-such-program'"),
        ("[sh, '{outt}']", "unknown placeholder {outt}; did you mean 'out'?"),
        ("[sh, -c, ls]", "{out} is missing, the file that the program writes its lists to"),
        ("[]", "models[1].params.command: must not be empty"),
    ],
)  # fmt: skip
def test_mistakes_are_found_at_validation(command: str, message: str) -> None:
    Path("c.yaml").write_text(
        "experiment: e\ndatasets: [blobs]\nsplit: {type: last_n}\nmetrics: [ndcg@10]\nmodels:\n  - popularity\n"
        f"  - {{name: c, type: command, params: {{command: {command}}}}}\n"
    )
    with pytest.raises(ConfigError) as caught:
        load(Path("c.yaml"))
    assert message in str(caught.value)


BOARD = """
import sys
import pyarrow as pa, pyarrow.parquet as pq
train, users, out = sys.argv[1:]
ids, items = pq.read_table(users)["user"].to_pylist(), list(range(1000, 1062, 2))
rows = [(u, i, r) for u in ids for r, i in enumerate(sorted(items, key=lambda i: ((i - 1000) // 2 + u) % 2), 1)]
user, item, rank = zip(*rows)
pq.write_table(pa.table({"user": user, "item": item, "rank": rank}), out)
"""


@pytest.mark.slow
def test_the_contract_holds() -> None:
    Path("board.py").write_text(BOARD)
    check_recommender("command", command=[PYTHON, "board.py", "{train}", "{users}", "{out}"])
