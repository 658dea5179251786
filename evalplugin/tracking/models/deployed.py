"""Lists of a model from MLflow: it is loaded, and asked for lists or for scores."""

from __future__ import annotations

import logging
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Codes, Floats
from evalplugin.base.errors import ModelError
from evalplugin.base.libraries import pd
from evalplugin.base.text import shorten
from evalplugin.data import Interactions
from evalplugin.data.tables import Table
from evalplugin.files.uris import scheme_of
from evalplugin.lists.columns import ListColumns
from evalplugin.lists.given import lists_on, shortfalls
from evalplugin.metrics.blocks import raw_text
from evalplugin.models.base import ListRequest
from evalplugin.models.recommend import user_blocks
from evalplugin.models.selection import TopN, candidate_mask, select_top_n
from evalplugin.tracking import mlflow
from evalplugin.tracking.connection import FAIL_FAST, check_stored_uri, existing_store
from evalplugin.tracking.models.interface import Interface, Takes
from evalplugin.tracking.read.uris import find_version, model_logged_as, tags_of

if TYPE_CHECKING:
    from mlflow.pyfunc import PyFuncModel

_USERS, _PAIRS = 10_000, 500_000  # that the model is asked for at a time
_MAX_NOTE = 400  # characters of a warning
# Warnings for those who log models.
_TO_AUTHORS = ("Any type hint is inferred as AnyType", "Add type hints to the `predict` method")


def lists_of(
    uri: str,
    folder: Path | None,
    interface: Interface,
    takes: Takes | None,
    inference: Mapping[str, Any],
    request: ListRequest,
) -> tuple[TopN, list[str]]:
    """Return the lists of a model without items that are no candidates, and sentences on it and on shortfalls.

    Args:
        uri: Of the model.
        folder: Of its files, where the URI names one.
        interface: The names of its columns.
        takes: Its input; None: as its signature says.
        inference: Parameters of a prediction.
        request: The users, and the items to list.
    """
    with _loaded_model(uri, folder, request) as (loaded, notes_on_model):
        signature = loaded.metadata.signature
        schema = None if signature is None else signature.inputs

        def ask(*ids: npt.NDArray[np.generic]) -> Any:
            return loaded.predict(interface.input(schema, *ids), params=dict(inference) or None)

        if (takes or interface.takes(schema)) == "users":
            lists, notes = _lists_for_users(ask, interface, request)
        else:
            lists, notes = _lists_of_scores(ask, interface, request)
    return lists, [*notes_on_model, *notes]


def _lists_for_users(
    ask: Callable[..., Any], interface: Interface, request: ListRequest
) -> tuple[TopN, list[str]]:
    """Return the lists that a model answers users with, and sentences on their shortfalls."""
    tables, n_popular = [], 0
    for start in range(0, len(request.users), _USERS):
        users = request.train.users[request.users[start : start + _USERS]]
        answer = ask(users)
        tables.append(interface.lists(answer, users))
        if {"items", "source"} <= {*getattr(answer, "columns", ())}:  # a recommender of evalplugin's registry
            n_popular += int((answer["source"] == "popularity").sum())
    table = pd.concat([table for table in tables if len(table)] or tables[:1], ignore_index=True)

    def row_name(row: int) -> str:
        return f"in the list of user {raw_text(table['user'].iloc[row])}"

    if len(table):
        lists, notes = lists_on(request, Table(table, interface.subject, row_name), ListColumns())
    else:
        shape = len(request.users), request.n
        lists = TopN(request.users, np.full(shape, -1, dtype=np.int32), np.full(shape, np.nan))
        notes = [*shortfalls(lists, request.train.users, request.unit)]
    if n_popular:
        notes = [
            f"{n_popular:,} of {len(request.users):,} users are unknown to the model, which answers them with what is "
            f"popular (source)",
            *notes,
        ]
    return lists, notes


def _lists_of_scores(
    ask: Callable[..., Any], interface: Interface, request: ListRequest
) -> tuple[TopN, list[str]]:
    """Return the best candidates by a model's scores for pairs, and sentences on shortfalls of the lists."""
    train, n = request.train, request.n
    item = np.empty((len(request.users), n), dtype=np.int32)
    score = np.empty((len(request.users), n))
    start, different = 0, np.empty(0)
    for users in user_blocks(request.users, train.n_items, _PAIRS * 8):
        scores = np.full((len(users), train.n_items), -np.inf)
        row, code = np.nonzero(candidate_mask(users, request.candidates, train.n_items))
        given = np.empty(len(row))
        for first in range(0, len(row), _PAIRS):
            some = slice(first, first + _PAIRS)
            given[some] = _scores(ask, interface, train, users[row[some]], code[some])
        scores[row, code] = given
        stop = start + len(users)
        item[start:stop], score[start:stop] = select_top_n(scores, n, request.candidates.tie_rank)
        start = stop
        if len(different) <= n:
            different = np.union1d(different, given)
    top_n = TopN(request.users, item, score)
    notes = [*shortfalls(top_n, train.users, request.unit)]
    if len(different) <= n:
        notes.append(
            f"the model has only {len(different)} different scores, and items with the same score are listed in "
            f"the order of `recommend.ties`: does it answer with classes in place of scores?"
        )
    return top_n, notes


def _scores(
    ask: Callable[..., Any], interface: Interface, train: Interactions, users: Codes, codes: Any
) -> Floats:
    """Return the scores of pairs, checked."""
    user, item = train.users[users], train.items[codes]
    scores = interface.scores(ask(user, item), len(user))
    wrong = ~(scores < np.inf)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ModelError(
            f"{interface.subject} scores item {raw_text(item[row])} for user {raw_text(user[row])} with {scores[row]}; "
            f"a score is a number, or -inf for an item that cannot be recommended"
        )
    return scores


@contextmanager
def _loaded_model(
    uri: str, folder: Path | None, request: ListRequest
) -> Iterator[tuple[PyFuncModel, list[str]]]:
    """Yield the model that a URI leads to, and sentences on it; its files are downloaded, and gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="evalplugin-") as scratch:
        files, origin = folder, f"the model {uri}"
        if files is None:
            files, origin = _download(uri, request.tracking_uri, scratch)
        messages: list[str] = []
        with _listening(messages):
            try:
                pyfunc = mlflow.pyfunc.load_model(str(files))
            except (ImportError, mlflow.exceptions.MlflowException) as error:
                missing = isinstance(error, ImportError) or isinstance(error.__cause__, ImportError)
                hint = "; install what it needs: its requirements.txt names it" if missing else ""
                raise ModelError(f"the model {uri} cannot be loaded here: {error}{hint}") from error
        made = (pyfunc.metadata.metadata or {}).get("fitted_on")  # of a model that a bake-off has registered
        origin += f", made from {made}" if made is not None else ""
        yield pyfunc, [f"evaluated is {origin}", *(f"while it was loaded: {text}" for text in messages)]


def _download(uri: str, tracking_uri: str | None, folder: str) -> tuple[Path, str]:
    """Return the downloaded files of a model, and words for it."""
    with existing_store(tracking_uri, f"load {uri}", settings=FAIL_FAST) as client:
        rest, files, origin = uri.partition(":")[2].strip("/"), uri, f"the model {uri}"
        match scheme_of(uri):
            case "models" if (version := find_version(client, uri)) is not None:
                files = client.get_model_version_download_uri(version.name, version.version)
                tags = tags_of(version)
                origin = f"version {version.version} of {version.name}"
                if "bakeoff" in tags:
                    origin += f", {tags.get('model', '?')} of the bake-off {tags['bakeoff']}"
            case "models":
                files = client.get_logged_model(rest).artifact_location
            case "runs" if (logged := model_logged_as(client, *rest.split("/", 1))) is not None:
                files = logged.artifact_location
        store = client.tracking_uri
        if files != uri:
            check_stored_uri(files, store)
        if scheme_of(files) == "runs":
            run_id = files.partition(":")[2].strip("/").partition("/")[0]
            check_stored_uri(client.get_run(run_id).info.artifact_uri, store)
        path = mlflow.artifacts.download_artifacts(artifact_uri=files, dst_path=folder, tracking_uri=store)
        return Path(path), origin


@contextmanager
def _listening(messages: list[str]) -> Iterator[None]:
    """Collect warnings of MLflow and the libraries of a model, in one line each, in place of printing them."""
    logger, heard = logging.getLogger("mlflow"), BufferingHandler(sys.maxsize)
    heard.setLevel(logging.WARNING)
    before, logger.handlers = logger.handlers, [heard]
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield
        texts = [record.getMessage() for record in heard.buffer]
        # Others are for those who write libraries.
        texts += [str(w.message) for w in warned if issubclass(w.category, UserWarning)]
        lines = dict.fromkeys(shorten(" ".join(text.split()), _MAX_NOTE) for text in texts)
        messages += [line for line in lines if not any(words in line for words in _TO_AUTHORS)]
    finally:
        logger.handlers = before
