"""Write lists of other tools, as these write them, to tests/lists/formats/<tool>/, and what the tool says of them.

Each tool runs in an environment of its own, without evalplugin:

    python -m venv .rectools && .rectools/bin/pip install rectools
    .rectools/bin/python experiments/formats/make.py rectools

The others: lenskit and omnirec (pip install lenskit omnirec-runner), recommenders, warprec, recbole, trec (ranx).
"""

from __future__ import annotations

import contextlib
import json
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "lists" / "formats"
K = 5
Values = dict[str, float]  # means, by the tool's names of metrics


def draw() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return train and test data of 12 users and 20 items: 6 and 3 items a user, popular ones more often."""
    rng = np.random.default_rng(0)
    items, weights = 100 + np.arange(20), 1 / np.arange(1, 21)
    drawn = [rng.choice(items, 9, replace=False, p=weights / weights.sum()) for _ in range(12)]
    users = np.repeat(np.arange(1, 13), 9)
    data = pd.DataFrame({"user": users, "item": np.concatenate(drawn)})
    data["rating"], data["timestamp"] = rng.integers(3, 6, len(data)).astype(float), np.arange(len(data))
    held_out = data.groupby("user").cumcount() >= 6
    return data[~held_out].reset_index(drop=True), data[held_out].reset_index(drop=True)


def rectools(train: pd.DataFrame, test: pd.DataFrame, folder: Path) -> Values:
    """Write the frame that ``recommend`` returns, and interactions."""
    from rectools import Columns
    from rectools.dataset import Dataset
    from rectools.metrics import MAP, NDCG, Recall, calc_metrics
    from rectools.models import EASEModel

    names = {"user": Columns.User, "item": Columns.Item, "rating": Columns.Weight}
    train, test = (
        frame.rename(columns=names).assign(datetime="2026-01-01")[Columns.Interactions]
        for frame in (train, test)
    )
    dataset = Dataset.construct(train)
    lists = (
        EASEModel(10.0).fit(dataset).recommend(test[Columns.User].unique(), dataset, k=K, filter_viewed=True)
    )
    lists.to_csv(folder / "lists.csv", index=False)
    test.to_csv(folder / "truth.csv", index=False)
    metrics = {f"{own.__name__}(k={K})": own(k=K) for own in (Recall, MAP, NDCG)}
    return calc_metrics(metrics, reco=lists, interactions=test)


def lenskit(train: pd.DataFrame, test: pd.DataFrame, folder: Path) -> Values:
    """Write collections of item lists in both layouts, and the metrics of each list."""
    from lenskit.basic import PopScorer
    from lenskit.batch import recommend
    from lenskit.data import ItemListCollection, from_interactions_df
    from lenskit.metrics import NDCG, Recall, RunAnalysis
    from lenskit.pipeline import topn_pipeline

    train, test = (frame.rename(columns={"user": "user_id", "item": "item_id"}) for frame in (train, test))
    pipeline = topn_pipeline(PopScorer(), n=K)
    pipeline.train(from_interactions_df(train))
    lists = recommend(pipeline, test["user_id"].unique())
    truth = ItemListCollection.from_df(test, ["user_id"])
    lists.save_parquet(folder / "lists.parquet")
    lists.save_parquet(folder / "flat.parquet", layout="flat")
    lists.to_df().to_csv(folder / "lists.csv", index=False)
    truth.save_parquet(folder / "truth.parquet")
    analysis = RunAnalysis(Recall(K), NDCG(K))
    measured = analysis.measure(lists, truth)
    measured.list_metrics().reset_index().to_csv(folder / "list_metrics.csv", index=False)
    return measured.list_summary()["mean"].to_dict()


def omnirec(train: pd.DataFrame, test: pd.DataFrame, folder: Path) -> Values:
    """Let OmniRec's runner of LensKit write predictions.json."""
    import tempfile

    from omnirec_runner.lenskit_runner import Lenskit

    names = ["user", "item", "timestamp"]  # without ratings, feedback is implicit
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        train[names].to_csv(work / "train.csv", index=False)
        test[names].to_csv(work / "test.csv", index=False)
        files = (work / "train.csv", work / "test.csv", work / "test.csv", folder / "predictions.json")
        runner = Lenskit("PopScorer", {}, "tiny", *files, work, work, K)
        runner._fit_job()
        runner._predict_job()
    test[["user", "item"]].to_csv(folder / "truth.csv", index=False)
    return {}


def recommenders(train: pd.DataFrame, test: pd.DataFrame, folder: Path) -> Values:
    """Write the frame that SAR's ``recommend_k_items`` returns."""
    from recommenders.evaluation.python_evaluation import ndcg_at_k, precision_at_k, recall_at_k
    from recommenders.models.sar import SAR

    names = {"user": "userID", "item": "itemID"}
    train, test = train.rename(columns=names), test.rename(columns=names)
    model = SAR(similarity_type="jaccard", normalize=True)
    model.fit(train)
    lists = model.recommend_k_items(test, top_k=K, remove_seen=True)
    lists.to_csv(folder / "lists.csv", index=False)
    test.to_csv(folder / "truth.csv", index=False)
    metrics = (precision_at_k, recall_at_k, ndcg_at_k)
    return {own.__name__: own(test, lists, k=K, relevancy_method="top_k") for own in metrics}


def recbole(train: pd.DataFrame, test: pd.DataFrame, folder: Path) -> Values:
    """Write the truth, and ``full_sort_topk``'s answer as a table, as RecBole writes no lists."""
    import tempfile

    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.model.general_recommender import Pop
    from recbole.trainer import Trainer
    from recbole.utils.case_study import full_sort_topk

    types = {
        "user": "user_id:token",
        "item": "item_id:token",
        "rating": "rating:float",
        "timestamp": "timestamp:float",
    }
    with tempfile.TemporaryDirectory() as work, contextlib.chdir(work):  # it writes logs there
        files = Path(work) / "tiny"
        files.mkdir()
        for part, frame in (("train", train), ("valid", test), ("test", test)):
            frame.rename(columns=types).to_csv(files / f"tiny.{part}.inter", sep="\t", index=False)
        options = {
            "data_path": work, "benchmark_filename": ["train", "valid", "test"], "checkpoint_dir": work, "epochs": 1,
            "topk": [K], "metrics": ["Recall", "MAP", "MRR"], "metric_decimal_place": 15, "show_progress": False,
            "use_gpu": False, "eval_args": {"order": "RO", "group_by": "user", "mode": "full"},
        }  # fmt: skip
        config = Config(model="Pop", dataset="tiny", config_dict=options)
        dataset = create_dataset(config)
        train_data, _, test_data = data_preparation(config, dataset)
        model = Pop(config, train_data.dataset)
        trainer = Trainer(config, model)
        trainer.fit(train_data, verbose=False, saved=False)
        values = trainer.evaluate(test_data, load_best_model=False)
        (folder / "tiny.test.inter").write_text((files / "tiny.test.inter").read_text())
    users = dataset.token2id("user_id", [str(user) for user in test["user"].unique()])
    scores, items = full_sort_topk(users, model, test_data, k=K)
    lists = pd.DataFrame(
        {
            "user": dataset.id2token("user_id", users.repeat(K)),
            "item": dataset.id2token("item_id", items.flatten().numpy()),
            "score": scores.flatten().numpy(),
        }
    )
    lists["rank"] = lists.groupby("user").cumcount() + 1
    lists.to_csv(folder / "lists.csv", index=False)
    return values


def warprec(train: pd.DataFrame, test: pd.DataFrame, folder: Path) -> Values:
    """Let WarpRec's pipeline ``eval`` write recs/; the truth is what it holds out, the last three of each user."""
    import shutil
    import tempfile

    import yaml
    from warprec.run import main

    train, test = (frame.rename(columns={"user": "user_id", "item": "item_id"}) for frame in (train, test))
    with tempfile.TemporaryDirectory() as work, contextlib.chdir(work):
        pd.concat([train, test]).to_csv("data.tsv", sep="\t", index=False)
        config = {
            "reader": {
                "loading_strategy": "dataset", "data_type": "transaction", "reading_method": "local",
                "local_path": "data.tsv", "rating_type": "implicit",
            },
            "writer": {
                "dataset_name": "tiny", "writing_method": "local", "local_experiment_path": "out",
                "recommendation": {"k": K},
            },
            "splitter": {"test_splitting": {"strategy": "temporal_leave_k_out", "k": 3}},
            "models": {"EASE": {"meta": {"save_recs": True}, "l2": 10.0}},
            "evaluation": {"top_k": [K], "metrics": ["nDCG", "Recall"]},
            "general": {"device": "cpu"},
        }  # fmt: skip
        Path("config.yaml").write_text(yaml.safe_dump(config))
        main(["-c", "config.yaml", "-p", "eval"])
        (recs,) = Path("out/tiny/recs").iterdir()
        shutil.copy(recs, folder / "lists.tsv")
        (results,) = Path("out/tiny/evaluation").iterdir()
        values = pd.read_csv(results, sep="\t").iloc[0]
    test.to_csv(folder / "truth.tsv", sep="\t", index=False)
    return {name: values[name] for name in ("nDCG", "Recall")}


def trec(train: pd.DataFrame, test: pd.DataFrame, folder: Path) -> Values:
    """Write a run and qrels by ranx."""
    from ranx import Qrels, Run, evaluate

    popular = train["item"].value_counts(sort=False).sort_index()
    popular = popular + 0.01 * np.arange(len(popular))  # no ties
    seen = train.groupby("user")["item"].agg(set)
    run = Run(
        {
            f"u{user}": {
                f"i{item}": float(score)
                for item, score in popular.drop(list(seen[user]), errors="ignore").nlargest(K).items()
            }
            for user in test["user"].unique()
        },
        name="popular",
    )
    qrels = Qrels(
        {
            f"u{user}": {f"i{row.item}": int(row.rating) for row in rows.itertuples()}
            for user, rows in test.groupby("user")
        }
    )
    run.save(str(folder / "run.trec"), kind="trec")
    qrels.save(str(folder / "qrels.trec"), kind="trec")
    return evaluate(qrels, run, [f"recall@{K}", f"ndcg@{K}", "mrr"])


PACKAGES = {"omnirec": "omnirec-runner", "trec": "ranx"}  # whose names are others

if __name__ == "__main__":
    tool = sys.argv[1]
    target = FOLDER / tool
    target.mkdir(parents=True, exist_ok=True)
    values = globals()[tool](*draw(), target)
    package = PACKAGES.get(tool, tool)
    made = {"package": package, "version": version(package), "made_by": "experiments/formats/make.py"}
    (target / "values.json").write_text(
        json.dumps(made | {"values": {name: float(value) for name, value in values.items()}}, indent=1) + "\n"
    )
