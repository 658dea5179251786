"""EASE of RecTools, in an environment of its own: RecTools 0.19 needs numpy < 2 below Python 3.13.

In a config:

  - name: rectools-ease
    type: command
    params:
      command: [venvs/rectools/bin/python, rectools_ease.py, --train, "{train}", --users, "{users}",
        --candidates, "{candidates}", --out, "{out}", --n, "{n}"]

Made by: python -m venv venvs/rectools && venvs/rectools/bin/pip install rectools "pyarrow<26"
(newer versions of pyarrow need numpy 2)
"""

import argparse

import pandas as pd
from rectools import Columns
from rectools.dataset import Dataset
from rectools.models import EASEModel, PopularModel

parser = argparse.ArgumentParser()
for name in ("train", "users", "candidates", "out"):
    parser.add_argument(f"--{name}", required=True)
parser.add_argument("--n", type=int, required=True)
parser.add_argument("--regularization", type=float, default=500.0)
args = parser.parse_args()

names = {"user": Columns.User, "item": Columns.Item}
train = pd.read_parquet(args.train).rename(columns=names)
train[Columns.Weight] = 1.0  # whoever has met an item counts, as in most uses of EASE
train[Columns.Datetime] = pd.to_datetime(train.get("timestamp", 0), unit="s")
users = pd.read_parquet(args.users)["user"]
candidates = pd.read_parquet(args.candidates)
if "user" in candidates:
    raise SystemExit("RecTools takes one set of items for all users: use candidates: unseen, or all")

dataset = Dataset.construct(train[Columns.Interactions])
is_known = users.isin(train[Columns.User])
lists = []
# Users without train data get what is popular.
for model, some in ((EASEModel(args.regularization), users[is_known]), (PopularModel(), users[~is_known])):
    if len(some):
        model.fit(dataset)
        lists.append(model.recommend(some.to_numpy(), dataset, k=args.n, filter_viewed=True))
names = {Columns.User: "user", Columns.Item: "item", Columns.Rank: "rank"}
pd.concat(lists).rename(columns=names)[["user", "item", "rank"]].to_parquet(args.out)
