"""Lists scored on a log of decisions: what was shown, where, with which probability, and what it earned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import NO_ITEM
from evalplugin.base.errors import DataError, ParameterError
from evalplugin.base.units import count_text
from evalplugin.comparison.doubt import doubt_of, values_among
from evalplugin.config.document import read_document
from evalplugin.data import Candidates, Impressions, Interactions, LoadContext, Split, impressions
from evalplugin.data.attributes import Attributes
from evalplugin.data.decisions import DECISION, check_shown, of_decisions
from evalplugin.data.files import TableFiles
from evalplugin.data.tables import Table, ids_of
from evalplugin.data.vocabulary import check_kinds, codes_of, encode
from evalplugin.lists.catalogue import Catalogue
from evalplugin.lists.columns import PairColumns, ScoreRequest
from evalplugin.lists.given import lists_on
from evalplugin.lists.scores import ListScores
from evalplugin.lists.scoring import Scoring
from evalplugin.metrics import Blocks
from evalplugin.metrics.blocks import n_candidates
from evalplugin.metrics.off_policy import check_propensities
from evalplugin.metrics.scores import Units
from evalplugin.metrics.scoring import check_pools, score_top_n
from evalplugin.models.base import ListRequest
from evalplugin.segments.base import clustering


@dataclass(frozen=True)
class Log:
    """A log of decisions, not read yet."""

    dataset: Impressions
    folder: Path = Path()  # base of its relative paths

    @classmethod
    def of(cls, given: Any) -> Log | None:
        """Return the log that a dataset, or a YAML file of one, stands for; None where it is something else.

        Raises:
            ConfigError: The file is not the mapping of a dataset.
        """
        if isinstance(given, Impressions):
            return cls(given)
        if not isinstance(given, str | Path) or Path(given).suffix not in (".yaml", ".yml"):
            return None
        document = read_document(Path(given))
        options = {key: value for key, value in document.data.items() if key not in ("name", "type")}
        if (kind := document.data.get("type", "impressions")) != "impressions":
            raise DataError(
                f"{given}: the type is {kind!r}; a log of decisions is a dataset of the type impressions"
            )
        try:
            return cls(impressions(**options), Path(given).parent)
        except ParameterError as error:
            raise document.error(error.problems) from None

    def load(self) -> Interactions:
        """Return the rows of the log in one piece, without attributes of items."""
        data = self.dataset.load(LoadContext(base=self.folder))
        return replace(data, part=None, parts=(), titles=None, item_attributes=Attributes())


def score_on_log(
    sources: Mapping[str, Table | TableFiles | None], log: Log, earlier: Log | None, request: ScoreRequest
) -> ListScores:
    """Return the scores of lists on a log, decision by decision.

    Args:
        sources: ``lists`` and perhaps a ``pool``.
        log: The truth.
        earlier: A log from before, for metrics of the train data and models of rewards.
        request: The metrics.

    Raises:
        DataError: Input that breaks a rule, or lists without a decision of the log.
    """
    tables = {
        role: PairColumns.read_all(source, role, request.columns)  # type: ignore[arg-type]
        for role, source in sources.items()
        if source is not None
    }
    data = log.load()
    of_log = data.notes
    check_propensities(request.specs, data)
    for role, table in tables.items():
        check_kinds(DECISION, **{role: table.user, "log": ids_of(data.users)})
        check_kinds("item", **{role: table.item, "log": ids_of(data.items)})
        data = data.on_catalogue(encode([table.item])[0])
    fold = None if earlier is None else _fold(earlier.load(), data)
    test, lists = data if fold is None else fold.test, tables["lists"]
    candidates = None if "pool" not in tables else _pool(tables["pool"], test)
    longest = int(np.bincount(encode([lists.user])[1][0]).max(initial=1))
    asked = ListRequest(test, test.active_users, longest, candidates or Candidates("all"), unit=DECISION)
    top_n, notes = lists_on(asked, lists, request.columns)
    is_empty = top_n.item[:, 0] == NO_ITEM
    if is_empty.all():
        raise DataError(
            f"{lists.name}: none is of a decision of the log, which has such as {test.users[0]!r}"
        )
    pools = n_candidates(asked.candidates, test)[test.active_users]
    lengths = np.count_nonzero(top_n.item != NO_ITEM, axis=1)
    if (short := np.flatnonzero((lengths < pools) & ~is_empty)).size:
        check_pools(request.specs, int(lengths[short[0]]), int(pools[short[0]]))
    blocks = Blocks.of(
        top_n,
        test,
        train=None if fold is None else fold.train,
        known=None if fold is None else fold.known,
        shown=None if fold is None else fold.shown,
        relevance=request.relevance,
        candidates=candidates,
    )
    scores = score_top_n(blocks, request.specs, request.curve_ks(top_n.n))
    users = test.user_columns.get("user")
    column = None
    if users is not None:
        column = clustering("user", users[codes_of(scores.users, test.users)], scores.users)
    units = Units.of_lists(scores.users, DECISION, column)
    scores = replace(scores, units=units, unlisted=int(np.count_nonzero(is_empty)))
    for spec in values_among(request.specs):
        if (doubt := doubt_of(scores, spec, is_assumed=data.assumed is not None)) is not None:
            notes.append(f"{lists.name}: {doubt.text(spec.name)}")
    return ListScores(scores, notes=(*of_log, *notes), assumed=data.assumed)


def _pool(pool: PairColumns, log: Interactions) -> Candidates:
    """Return the pools of decisions, which have what was shown."""
    scoring = Scoring(ScoreRequest(()), Catalogue(log.users, log.items, log), pool=pool)
    candidates = Candidates("given", included=scoring.pool_rows(pool.no_rows(), log.users))
    check_shown(log, candidates)
    return candidates


def _fold(train: Interactions, test: Interactions) -> Split:
    """Return the fold of an earlier log and the log that lists are scored on, on the vocabularies of both."""
    logs = (train, test)
    for noun, ids in ((DECISION, "users"), ("item", "items")):
        check_kinds(noun, train=ids_of(getattr(train, ids)), log=ids_of(getattr(test, ids)))
    users, user_codes = encode([ids_of(log.users) for log in logs])
    items, item_codes = encode([ids_of(log.items) for log in logs])
    if both := len(train.users) + len(test.users) - len(users):
        first = np.intersect1d(train.users, test.users)[:1].tolist()[0]
        raise DataError(
            f"train: {count_text(both, DECISION)} in both logs, such as {first!r}; an earlier log has other decisions "
            f"than the one that lists are scored on"
        )
    owner: npt.NDArray[Any] = np.array([f"{DECISION} {text}" for text in users.tolist()], dtype=object)
    for log, user in zip(logs, user_codes, strict=True):
        owner[user] = log.user_columns.get("user", owner[user])
    owners = Attributes({"user": owner} if "user" in test.user_columns else {})
    earlier, later = (
        replace(
            log,
            user=user[log.user].astype(np.int32),
            item=item[log.item].astype(np.int32),
            users=users,
            items=items,
            user_columns=owners,
        )
        for log, user, item in zip(logs, user_codes, item_codes, strict=True)
    )
    return of_decisions(Split(earlier, later))
