"""Interactions, where they come from, and how they are divided into train data and truth."""

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
from evalplugin.data.interactions import DuplicatePolicy, Interactions, Rows
from evalplugin.data.splits import Holdout, KFold, LastN, NoSplit, SampleUsers, Temporal

__all__ = [
    "DATASETS",
    "SPLITS",
    "CandidateKind",
    "Candidates",
    "DatasetLoader",
    "DuplicatePolicy",
    "Holdout",
    "Interactions",
    "KFold",
    "LastN",
    "LoadContext",
    "NoSplit",
    "Rows",
    "SampleUsers",
    "Split",
    "Splitter",
    "Temporal",
    "dataset",
    "split",
]
