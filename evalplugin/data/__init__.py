"""Interactions, datasets, filters, splits, candidates, and the reader of tables."""

from evalplugin.data.base import (
    DATASETS,
    FILTERS,
    SPLITS,
    DatasetLoader,
    Filter,
    Kept,
    LoadContext,
    Split,
    Splitter,
    data_filter,
    dataset,
    split,
)
from evalplugin.data.candidates import Candidates
from evalplugin.data.datasets.impressions import Impressions, impressions
from evalplugin.data.datasets.movielens import MovieLens
from evalplugin.data.datasets.pairs import Pairs
from evalplugin.data.datasets.sql import Sql
from evalplugin.data.datasets.synthetic import Blobs, Synthetic
from evalplugin.data.datasets.tables import Csv, DataFrame, Json, Parquet
from evalplugin.data.filters import KCore, MinCount, Period, RatingRange, filtered
from evalplugin.data.given import GivenSplit, in_one_piece
from evalplugin.data.interactions import Interactions, Rows
from evalplugin.data.new_items import NewItems
from evalplugin.data.new_users import NewUsers
from evalplugin.data.next_item import NextItem
from evalplugin.data.pool import Pooled, PoolTable
from evalplugin.data.splits import Holdout, KFold, LastN, NoSplit, SampleUsers
from evalplugin.data.temporal import Temporal

__all__ = [
    "DATASETS",
    "FILTERS",
    "SPLITS",
    "Blobs",
    "Candidates",
    "Csv",
    "DataFrame",
    "DatasetLoader",
    "Filter",
    "GivenSplit",
    "Holdout",
    "Impressions",
    "Interactions",
    "Json",
    "KCore",
    "KFold",
    "Kept",
    "LastN",
    "LoadContext",
    "MinCount",
    "MovieLens",
    "NewItems",
    "NewUsers",
    "NextItem",
    "NoSplit",
    "Pairs",
    "Parquet",
    "Period",
    "PoolTable",
    "Pooled",
    "RatingRange",
    "Rows",
    "SampleUsers",
    "Split",
    "Splitter",
    "Sql",
    "Synthetic",
    "Temporal",
    "data_filter",
    "dataset",
    "filtered",
    "impressions",
    "in_one_piece",
    "split",
]
