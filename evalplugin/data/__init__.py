"""Interactions, datasets, splits, candidates, and the reader of tables."""

from evalplugin.data.base import (
    DATASETS,
    SPLITS,
    DatasetLoader,
    LoadContext,
    Split,
    Splitter,
    dataset,
    split,
)
from evalplugin.data.candidates import CandidateKind, Candidates
from evalplugin.data.datasets.blobs import Blobs
from evalplugin.data.datasets.movielens import MovieLens
from evalplugin.data.datasets.synthetic import Synthetic
from evalplugin.data.datasets.tables import Csv, DataFrame, Parquet
from evalplugin.data.encoding import DuplicatePolicy
from evalplugin.data.interactions import Interactions, Rows
from evalplugin.data.splits import Holdout, KFold, LastN, NoSplit, SampleUsers
from evalplugin.data.temporal import Temporal

__all__ = [
    "DATASETS",
    "SPLITS",
    "Blobs",
    "CandidateKind",
    "Candidates",
    "Csv",
    "DataFrame",
    "DatasetLoader",
    "DuplicatePolicy",
    "Holdout",
    "Interactions",
    "KFold",
    "LastN",
    "LoadContext",
    "MovieLens",
    "NoSplit",
    "Parquet",
    "Rows",
    "SampleUsers",
    "Split",
    "Splitter",
    "Synthetic",
    "Temporal",
    "dataset",
    "split",
]
