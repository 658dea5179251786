"""The programs of examples/programs make the lists of their libraries, each in an environment of its own.

`nox -s programs` makes the environments and runs these tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import evalplugin

PROGRAMS = Path(__file__).parents[1] / "examples" / "programs"
# What a library itself recommends, asked in its own words: from {train} (parquet) to {own}.
OWN = {
    "rectools_ease": """
import sys, pandas as pd
from rectools.dataset import Dataset
from rectools.models import EASEModel
train = pd.read_parquet(sys.argv[1]).rename(columns={"user": "user_id", "item": "item_id"})
dataset = Dataset.construct(train.assign(weight=1.0, datetime="2026-01-01"))
lists = EASEModel(500.0).fit(dataset).recommend(train["user_id"].unique(), dataset, 10, True)
lists[["user_id", "item_id", "rank"]].set_axis(["user", "item", "rank"], axis=1).to_parquet(sys.argv[2])
""",
    "cornac_bpr": """
import sys, cornac, pandas as pd
train = pd.read_parquet(sys.argv[1])
ratings = list(train[["user", "item", "rating"]].itertuples(index=False))
dataset = cornac.data.Dataset.from_uir(ratings, seed=int(sys.argv[3]))
model = cornac.models.BPR(k=50, max_iter=100, num_threads=1, seed=int(sys.argv[3])).fit(dataset)
rows = [
    (user, item, rank)
    for user in train["user"].unique()
    for rank, item in enumerate(model.recommend(user, k=10, remove_seen=True, train_set=dataset), 1)
]
pd.DataFrame(rows, columns=["user", "item", "rank"]).to_parquet(sys.argv[2])
""",
}
# The same for the queries of {history}: from {train} and {history} to {own}. Order is that of the rows alone.
OWN_SASREC = """
import sys, pandas as pd, torch
from pytorch_lightning import seed_everything
from rectools.dataset import Dataset
from rectools.models import SASRecModel
def dataset(file):
    events = pd.read_parquet(file).rename(columns={"user": "user_id", "item": "item_id"})
    return Dataset.construct(events.assign(weight=1.0, datetime=pd.to_datetime(range(len(events)), unit="s")))
queries = dataset(sys.argv[2])
torch.set_num_threads(1)
seed_everything(int(sys.argv[4]))
model = SASRecModel(n_factors=64, session_max_len=10, epochs=20, deterministic=True).fit(dataset(sys.argv[1]))
lists = model.recommend(queries.user_id_map.external_ids, queries, 10, False, on_unsupported_targets="ignore")
lists[["user_id", "item_id", "rank"]].set_axis(["user", "item", "rank"], axis=1).to_parquet(sys.argv[3])
"""


def python_of(library: str) -> str:
    """Return the Python of a library's environment."""
    variable = f"EVALPLUGIN_TEST_{library.upper()}"
    if variable not in os.environ:
        pytest.skip(
            f"{variable} is not set: the path of a Python with {library}, as `nox -s programs` sets it"
        )
    return os.environ[variable]


@pytest.mark.slow
@pytest.mark.parametrize("program", OWN)
def test_a_program_makes_the_lists_of_its_library(program: str, store: Path, no_drawing: None) -> None:
    python = python_of(program.partition("_")[0])
    shutil.copy(PROGRAMS / f"{program}.py", ".")
    options = ["train", "users", "candidates", "out", "n", *(["seed"] if program == "cornac_bpr" else [])]
    words = [python, f"{program}.py", *(word for name in options for word in (f"--{name}", f"{{{name}}}"))]
    # The same program, whose train data and seed are kept.
    keep = 'cp "$1" train.parquet; echo "$2" > seed; shift 2; exec "$@"'
    keeping = ["sh", "-c", keep, "sh", "{train}", "{seed}", *words]
    user, item = np.divmod(np.random.default_rng(0).choice(80 * 60, 2000, replace=False), 60)
    frame = pd.DataFrame({"user": user, "item": item, "timestamp": np.arange(2000)})
    # A user without train data, whose items others have too.
    frame = pd.concat([frame, pd.DataFrame({"user": 1000, "item": [0, 1], "timestamp": [1990, 1991]})])
    frame.to_csv("ratings.csv", index=False)
    config = {
        "experiment": "e",
        "datasets": [{"type": "csv", "path": "ratings.csv", "timestamp": "timestamp"}],
        "split": {"type": "temporal", "quantile": 0.9},
        "recommend": {"n": 10},
        "metrics": ["ndcg@10"],
        "models": ["popularity", {"name": "theirs", "type": "command", "params": {"command": keeping}}],
        "tracking": {"uri": "sqlite:///mlflow.db"},
    }
    theirs = evalplugin.run(config).models[1]
    assert theirs.error is None, theirs.error
    assert theirs.notes == ()
    command = [python, "-c", OWN[program], "train.parquet", "own.parquet", Path("seed").read_text()]
    subprocess.run(command, check=True)
    lists = theirs.top_n.to_pandas()
    own = pd.read_parquet("own.parquet").merge(lists[["user"]].drop_duplicates())
    known = lists[lists["user"] != 1000].reset_index(drop=True)
    own = own.sort_values(["user", "rank"], ignore_index=True)
    assert len(own) > 100
    assert known[["user", "item", "rank"]].astype(int).equals(own.astype(int))
    assert lists.loc[lists["user"] == 1000, "item"].is_unique
    assert len(lists[lists["user"] == 1000]) == 10


@pytest.mark.slow
def test_rectools_sasrec_lists_the_next_items_of_sessions(store: Path, no_drawing: None) -> None:
    python = python_of("rectools")
    shutil.copy(PROGRAMS / "rectools_sasrec.py", ".")
    names = ["train", "users", "history", "candidates", "out", "n", "seed"]
    options = ["--epochs", "20", "--factors", "64", "--session-length", "10"]
    words = [python, "rectools_sasrec.py", *(word for name in names for word in (f"--{name}", f"{{{name}}}"))]
    # The same program, whose inputs and seed are kept.
    keep = 'for name in train users history candidates; do cp "$1" $name.parquet; shift; done; '
    keep += 'echo "$1" > seed; shift; exec "$@"'
    kept = ["{train}", "{users}", "{history}", "{candidates}", "{seed}"]
    sessions(500).to_csv("clicks.csv", index=False)
    config = {
        "experiment": "e",
        "datasets": [{"type": "csv", "path": "clicks.csv", "timestamp": "timestamp", "duplicates": "keep"}],
        "split": {"type": "next_item", "test": "n_sessions", "n_sessions": 101},
        "recommend": {"n": 10},
        "metrics": ["hit@1", "rr@10"],
        "models": [
            "popularity",
            {
                "name": "theirs",
                "type": "command",
                "params": {"command": ["sh", "-c", keep, "sh", *kept, *words, *options]},
            },
        ],
        "tracking": {"uri": "sqlite:///mlflow.db"},
    }
    popularity, theirs = evalplugin.run(config).models
    assert theirs.error is None, theirs.error
    assert theirs.notes == ()
    # The next item is known in 9 of 10 cases, and is otherwise any of 60.
    first = [model.per_user.column("hit@1").mean() for model in (popularity, theirs)]
    assert first[0] < 0.1
    assert first[1] > 0.6

    lists = theirs.top_n.to_pandas()[["user", "item", "rank"]]
    lists = lists.sort_values(["user", "rank"], ignore_index=True)
    # A query whose only item nobody else has is listed what is popular; RecTools has no list for it.
    cold = lists["user"] == "500:1"
    counts = pd.read_parquet("train.parquet").groupby("item").size()
    popular = sorted(counts.index, key=lambda item: (-counts[item], item))[:10]
    assert lists[cold]["item"].tolist() == popular
    seed = int(Path("seed").read_text())
    files = ["train.parquet", "history.parquet", "own.parquet"]
    subprocess.run([python, "-c", OWN_SASREC, *files, str(seed)], check=True)
    own = pd.read_parquet("own.parquet").sort_values(["user", "rank"], ignore_index=True)
    assert own["user"].nunique() > 300
    assert lists[~cold].reset_index(drop=True).astype(own.dtypes).equals(own)

    def again(seed: int) -> pd.DataFrame:
        values = {name: f"{name}.parquet" for name in names[:5]} | {"n": "10", "seed": str(seed)}
        filled = [word.format(**values) for word in words]
        subprocess.run([*filled, *options], check=True)
        return pd.read_parquet("out.parquet").sort_values(["user", "rank"], ignore_index=True)

    assert again(seed).astype(own.dtypes).equals(lists.astype(own.dtypes))
    assert not again(seed + 1).astype(own.dtypes).equals(lists.astype(own.dtypes))


def sessions(n: int) -> pd.DataFrame:
    """Return a log of n sessions of 2 to 8 events, whose next item is known in 9 of 10 cases, and one of a new item.

    Times are equal within a session: its order is that of the rows.
    """
    rng = np.random.default_rng(0)
    following = rng.permutation(60)
    rows = []
    for session in range(n):
        item = int(rng.integers(60))
        for _ in range(int(rng.integers(2, 9))):
            rows.append((session, item, session))
            item = int(following[item]) if rng.random() < 0.9 else int(rng.integers(60))
    rows += [(n, 999, n), (n, 0, n)]
    return pd.DataFrame(rows, columns=["user", "item", "timestamp"])
