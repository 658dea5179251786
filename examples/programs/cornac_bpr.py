"""BPR of cornac, in an environment of its own.

In a config:

  - name: cornac-bpr
    type: command
    params:
      command: [venvs/cornac/bin/python, cornac_bpr.py, --train, "{train}", --users, "{users}",
        --candidates, "{candidates}", --out, "{out}", --n, "{n}", --seed, "{seed}"]

Made by: python -m venv venvs/cornac && venvs/cornac/bin/pip install cornac pandas pyarrow
"""

import argparse

import cornac
import pandas as pd

parser = argparse.ArgumentParser()
for name in ("train", "users", "candidates", "out"):
    parser.add_argument(f"--{name}", required=True)
parser.add_argument("--n", type=int, required=True)
parser.add_argument("--seed", type=int, required=True)
parser.add_argument("--factors", type=int, default=50)
parser.add_argument("--epochs", type=int, default=100)
args = parser.parse_args()

train = pd.read_parquet(args.train)
users = pd.read_parquet(args.users)["user"]
if "user" in pd.read_parquet(args.candidates):
    raise SystemExit("cornac takes one set of items for all users: use candidates: unseen, or all")

triples = list(zip(train["user"], train["item"], train["rating"], strict=True))
dataset = cornac.data.Dataset.from_uir(triples, seed=args.seed)
# With more threads than one, BPR makes other lists each time.
model = cornac.models.BPR(k=args.factors, max_iter=args.epochs, num_threads=1, seed=args.seed).fit(dataset)
popular = train["item"].value_counts().index[: args.n]
lists = []
for user in users:
    # Users without train data get what is popular.
    known = user in dataset.uid_map
    items = model.recommend(user, remove_seen=True, train_set=dataset)[: args.n] if known else popular
    lists.append(pd.DataFrame({"user": user, "item": items, "rank": range(1, len(items) + 1)}))
pd.concat(lists).to_parquet(args.out)
