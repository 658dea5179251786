"""Models and bake-offs in a notebook, without a config: ``model_named`` and ``evaluate``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from io import BytesIO
from typing import Any, Self

import numpy as np
import yaml

from evalplugin.api import run
from evalplugin.base.arrays import Codes
from evalplugin.base.errors import DataError, ModelError, did_you_mean
from evalplugin.base.libraries import pa, pd
from evalplugin.base.units import count_text
from evalplugin.components.parameters import as_mapping
from evalplugin.config import ModelRecipe
from evalplugin.data import DATASETS, Candidates, Interactions, LoadContext, Split, in_one_piece
from evalplugin.data.tables import Table, ids_of, is_table
from evalplugin.data.vocabulary import check_kinds, codes_of
from evalplugin.execution.observer import Observer, warn_caller
from evalplugin.execution.tasks import Task, Work
from evalplugin.features.base import Bakeoff
from evalplugin.files.outputs import open_table
from evalplugin.lists.columns import ListColumns, PairColumns
from evalplugin.metrics.blocks import raw_text
from evalplugin.metrics.relevance import Relevance
from evalplugin.models import MODELS, Recommender, TopN, one_blas_thread


def model_named(name: str, /, **params: Any) -> NamedModel:
    """Return a model by the name that configs give its type, not fitted yet.

    Args:
        name: Such as ``ease``; ``evalplugin list models`` has all.
        params: Its parameters, checked as in a config.

    Raises:
        UnknownNameError: No model has the name; the message has the nearest one.
        ParameterError: Unknown, missing or wrong parameters.
        MissingPackageError: A package that it needs is not installed.
    """
    return NamedModel(name, as_mapping(MODELS.create(name, params)))


@dataclass
class NamedModel:
    """A model of ``model_named``, with the lists of a bake-off that has the same train data, seed and parameters.

    ``type`` is its name, and ``params`` has every parameter.
    """

    type: str
    params: Mapping[str, Any]
    # The fitted model, the task of its fit, and the options of the table.
    _fitted: tuple[Recommender, Task, Mapping[str, Any]] | None = field(default=None, init=False, repr=False)

    def fit(self, frame: Any, *, seed: int = 0, **columns: Any) -> Self:
        """Fit the model on all rows of a table, and return it; an earlier fit is replaced.

        Args:
            frame: A table of pandas, polars or Arrow: user, item, and perhaps rating and timestamp.
            seed: As in a config.
            columns: Other names, such as ``user="customer"``; ``rating=None`` leaves ratings out. All options of the
                dataset ``dataframe``: with ``duplicates="keep"`` it is a log of events.

        Raises:
            ParameterError: No table, or an unknown option.
            DataError: A missing column, or a value that breaks a rule.
        """
        options = _options(frame, columns)
        data = in_one_piece(_read(frame, options))
        fold = Split(data, _asking(data, data.active_users[:1]), repeats=True)
        stream = (fold.train.pairs_digest,)
        task = Task(self.recipe, fold, Candidates("all"), seed, stream, 1, (), Relevance(), ties=())
        work = Work(task, self.type, Observer())
        with one_blas_thread():
            model = work.new_model()
            work.fit(model)
        self._fitted = model, task, options
        return self

    def recommend(self, users: Any = None, n: int = 10, *, history: Any = None) -> pd.DataFrame:
        """Return the best n items of each user: user, item, rank (from 1) and score.

        Items that the user has are left out, unless the data is a log of events.

        Args:
            users: Raw ids, or one, in the order of the result; None: all of the history, or else of the data.
            n: Length of the lists, at least 1.
            history: Interactions of new users, with the columns of ``fit`` that the model reads. They replace those
                that the data has of a user.

        Raises:
            ModelError: It is not fitted, or cannot list items for users who are not in the data.
            DataError: A user who is neither in the data nor in the history, or a history that breaks a rule.
        """
        if self._fitted is None:
            raise ModelError(f"{self.type} is not fitted yet: call fit(frame) first")
        if n < 1:
            raise DataError(f"n must be at least 1, not {n}")
        model, task, options = self._fitted
        fold = task.split
        if history is not None:
            fold = _with_history(fold, _read_history(model, history, options))
        codes = _codes(users, fold)
        asked, place = np.unique(codes, return_inverse=True)
        fold = replace(fold, test=_asking(fold.train, asked))
        allowed = Candidates("all") if fold.train.from_events else Candidates("unseen", fold.known.rows)
        with one_blas_thread():
            task = replace(task, split=fold, candidates=allowed, n=n)
            made = Work(task, self.type, Observer()).make_lists(model)
        for note in made.notes:
            warn_caller(f"{self.type}: {note}")
        lists = TopN(codes, made.top_n.item[place], made.top_n.score[place])
        return pd.DataFrame(lists.to_table(fold.train).to_pandas())

    def to_yaml(self) -> str:
        """Return the model as an entry of ``models:`` in a config, every parameter included."""
        return yaml.safe_dump([self.recipe.as_mapping()], sort_keys=False, allow_unicode=True)

    @property
    def recipe(self) -> ModelRecipe:
        """The model as a bake-off has it."""
        return ModelRecipe(self.type, self.type, self.params)


def evaluate(
    models: Mapping[str, Any],
    data: Any,
    *,
    split: str | Mapping[str, Any],
    metrics: str | Sequence[str],
    config: Mapping[str, Any] | None = None,
    **columns: Any,
) -> Bakeoff:
    """Return a bake-off without a config that has run, as ``run`` does.

    Args:
        models: By name: a model of ``model_named``, which is fitted anew on the train part of the split; an entry of
            ``models:``, or its type alone; a table of lists with columns user, item, and rank or score, of which the
            user's cache folder keeps a copy.
        data: The interactions, as ``NamedModel.fit`` takes them.
        split: Such as ``last_n``, or ``{"type": "last_n", "n": 3}``.
        metrics: Such as ``ndcg@10``, or several; the first one ranks.
        config: Other keys of a config, such as ``{"compare": {"baseline": "popularity"}}``.
        columns: As of ``NamedModel.fit``.

    Raises:
        ConfigError: All mistakes of models, split, metrics and ``config``.
        DataError: Data or lists that are missing or break a rule.
        TrackingError: The tracking store cannot be reached.
    """
    if not isinstance(models, Mapping):
        raise DataError(f"models must be a mapping of names to models, not {type(models).__name__}")
    parts = {
        "datasets": [{"name": "data", "type": "dataframe", "frame": data, **_options(data, columns)}],
        "models": [_entry(name, model) for name, model in models.items()],
        "split": split,
        "metrics": [metrics] if isinstance(metrics, str) else list(metrics),
    }
    if twice := sorted(parts.keys() & (config or {})):
        raise DataError(f"config: {', '.join(twice)}: an argument of evaluate already; leave it out")
    return run({"experiment": "notebook", **(config or {}), **parts})


def _entry(name: str, model: Any) -> dict[str, Any]:
    """Return the entry of ``models:`` for what ``evaluate`` was given."""
    if isinstance(model, NamedModel):
        model = model.recipe.as_mapping()
    elif isinstance(model, str):
        model = {"type": model}
    elif is_table(model):
        model = {"type": "lists", "params": {"path": _written(Table(model, f"lists of {name}"))}}
    if not isinstance(model, Mapping):
        allowed = "a model of model_named, an entry of models: in a config, or a table of lists"
        raise DataError(f"models: {name!r} must be {allowed}, not {type(model).__name__}")
    return {**model, "name": name}


def _written(lists: Table) -> str:
    """Return the path of a Parquet file with lists, named by its content: the same lists are the same model."""
    import pyarrow.parquet as pq

    PairColumns.read_all(lists, "lists", ListColumns())  # refuses what the model would fail on
    names = [name for name in ("user", "item", "rank", "score", "fold") if name in lists.columns]
    content = BytesIO()
    pq.write_table(pa.table({name: lists.arrow(name) for name in names}), content)
    path = LoadContext().home / "lists" / f"{sha256(content.getvalue()).hexdigest()[:32]}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_table(path) as (file, _):
        file.write(content.getvalue())
    return str(path)


def _options(frame: Any, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the dataset ``dataframe``: columns called rating and timestamp are what they say."""
    found = Table(frame, "data").columns if is_table(frame) else []
    return {name: name for name in ("rating", "timestamp") if name in found} | {**columns}


def _read(frame: Any, options: Mapping[str, Any]) -> Interactions:
    return DATASETS.create("dataframe", {"frame": frame, **options}).load(LoadContext())


def _read_history(model: Recommender, frame: Any, options: Mapping[str, Any]) -> Interactions:
    """Return a history; it may lack ratings and times that the model does not read."""
    needs = {"user": True, "item": True, "rating": model.uses_ratings, "timestamp": model.sequential}
    found = Table(frame, "history").columns
    of_rows = {role: name for role, name in options.items() if role in (*needs, "duplicates")}
    return _read(frame, {role: of for role, of in of_rows.items() if needs.get(role, True) or of in found})


def _asking(data: Interactions, users: Codes) -> Interactions:
    """Return test data of some users, for whom a task lists items; which items it has does not matter."""
    rows = data.select(np.zeros(len(users), dtype=np.int64))
    return replace(rows, user=users.astype(np.int32), events=False)


def _with_history(fold: Split, given: Interactions) -> Split:
    """Return a fold with a history, whose users have codes behind those of the train data.

    Raises:
        DataError: Ids of another type than the data's, or no item of the data.
    """
    train = fold.train
    for noun, own, known in ("user", given.users, train.users), ("item", given.items, train.items):
        check_kinds(noun, history=ids_of(own), data=ids_of(known))
    item = codes_of(given.items, train.items)[given.item].astype(np.int32)
    if (strange := item < 0).any():
        text, example = count_text(int(strange.sum()), "interaction"), given.items[given.item[strange][0]]
        lacking = f"{text} with items that the data does not have, such as {raw_text(example)}"
        if strange.all():
            raise DataError(f"history: all of it, {lacking}")
        warn_caller(f"history: left out: {lacking}")
    users = np.concatenate([train.users, given.users])
    user = given.user + np.int32(train.n_users)
    history = replace(given, user=user, item=item, users=users, items=train.items).select(~strange)
    log = None if fold.log is None else replace(fold.log, users=users)
    train, test = replace(train, users=users), replace(fold.test, users=users)
    return replace(fold, train=train, test=test, log=log, history=history)


def _codes(users: Any, fold: Split) -> Codes:
    """Return the code of each user that is asked for: that in the history, if there is one.

    Raises:
        DataError: A user without interactions.
    """
    known = [fold.train] if fold.history is None else [fold.train, fold.history]
    if users is None:
        return known[-1].active_users
    codes = np.concatenate([data.active_users for data in known])
    code = dict(zip(fold.train.users[codes].tolist(), codes.tolist(), strict=True))
    asked = [users] if isinstance(users, str | int | np.integer) else list(users)
    if unknown := [user for user in asked if user not in code]:
        near = did_you_mean(str(unknown[0]), [user for user in code if isinstance(user, str)], noun=None)
        raise DataError(
            f"user {raw_text(unknown[0])} is not in the data, whose users are such as {next(iter(code))!r}{near}; for "
            f"new users, give a history with items of the data: recommend(users, n, history=frame)"
        )
    return np.array([code[user] for user in asked], dtype=np.int32)
