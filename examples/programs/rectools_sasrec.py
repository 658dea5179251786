"""SASRec of RecTools, a neural model of sequences, in an environment of its own; for the split next_item.

In a config, whose dataset has duplicates: keep, so that items of a session can be listed again:

  - name: rectools-sasrec
    type: command
    params:
      command: [venvs/rectools/bin/python, rectools_sasrec.py, --train, "{train}", --users, "{users}",
        --history, "{history}", --candidates, "{candidates}", --out, "{out}", --n, "{n}", --seed, "{seed}"]

Made by: python -m venv venvs/rectools && venvs/rectools/bin/pip install "rectools[torch]" "pyarrow<26"
(newer versions of pyarrow need numpy 2)
"""

import argparse

import pandas as pd
import torch
from pytorch_lightning import seed_everything
from rectools import Columns
from rectools.dataset import Dataset
from rectools.models import SASRecModel

parser = argparse.ArgumentParser()
for name in ("train", "users", "history", "candidates", "out"):
    parser.add_argument(f"--{name}", required=True)
parser.add_argument("--n", type=int, required=True)
parser.add_argument("--seed", type=int, required=True)
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--factors", type=int, default=128)
parser.add_argument(
    "--session-length", type=int, default=50, help="the last events of a session, which count"
)
parser.add_argument("--unseen", action="store_true", help="list no items of the session: candidates: unseen")
args = parser.parse_args()

users = pd.read_parquet(args.users)["user"]
if "user" in pd.read_parquet(args.candidates):
    raise SystemExit("RecTools takes one set of items for all users: use candidates: all, or unseen")

names = {"user": Columns.User, "item": Columns.Item}
files = {"train": args.train, "history": args.history}
events = pd.concat({part: pd.read_parquet(file).rename(columns=names) for part, file in files.items()})
events[Columns.Weight] = 1.0
# RecTools takes events by time; where times are equal or there are none, in the order of the rows.
events[Columns.Datetime] = pd.to_datetime(events.get("timestamp", 0), unit="s")
train = events.loc["train"]
# With more threads than one, sums and so lists depend on their number.
torch.set_num_threads(1)
seed_everything(args.seed)
model = SASRecModel(
    n_factors=args.factors, session_max_len=args.session_length, epochs=args.epochs, deterministic=True
)
model.fit(Dataset.construct(train))

# Each query is a user of this dataset, with its history.
queries = Dataset.construct(events[events[Columns.User].isin(users)])
lists = model.recommend(
    users.to_numpy(), queries, k=args.n, filter_viewed=args.unseen, on_unsupported_targets="ignore"
)
names = {Columns.User: "user", Columns.Item: "item", Columns.Rank: "rank"}
lists = lists.rename(columns=names)[["user", "item", "rank"]]
# Queries whose items are all unknown to the model get what is popular.
popular = train.groupby(Columns.Item).size().sort_values(ascending=False, kind="stable").index[: args.n]
others = users[~users.isin(lists["user"])]
rows = [(user, item, rank) for user in others for rank, item in enumerate(popular, 1)]
pd.concat([lists, pd.DataFrame(rows, columns=lists.columns)]).to_parquet(args.out)
