"""``Drift``: differences between a dataset's card and the one that an earlier bake-off has logged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from pydantic import TypeAdapter

from evalplugin.base.errors import TrackingError
from evalplugin.base.units import plural
from evalplugin.features.data_card.card import DataCard, Rating, Seconds
from evalplugin.tracking import mlflow
from evalplugin.tracking.read.logged import LoggedRun
from evalplugin.tracking.read.runs import DONE, SUMMARY_RUNS, search_runs

CARD = "data/card.json"  # of the summary run
_EARLIER = 10  # bake-offs in which a dataset is looked for
_NO_EARLIER = "no earlier bake-off of this experiment to compare the data with"

# Of sizes, relative to before; of shares, Gini coefficients and distributions, the difference.
THRESHOLD = 0.05


@dataclass(frozen=True)
class CardChange:
    """One number of a card that differs by more than the threshold."""

    name: str  # such as "interactions", "cold users, split last_n" or "ratings"
    # size: relative change; share: difference; shape: total variation distance of two distributions.
    kind: str
    before: float | None  # None: a distribution, or there was none
    now: float | None
    change: float | None  # relative for sizes, else the difference or distance; None: it has come or gone


@dataclass(frozen=True)
class Drift:
    """A dataset now and in an earlier bake-off. Sizes and distributions are compared, not who users and items are."""

    dataset: str
    bakeoff: str  # id of the earlier one
    at: str  # when that was started: ISO 8601, UTC
    same: bool  # equal digests: the same interactions
    changes: tuple[CardChange, ...] = ()
    # Timestamps of the first and the last interaction then; None: no timestamps.
    span_before: tuple[Seconds, Seconds] | None = None
    span_now: tuple[Seconds, Seconds] | None = None


def drift_between(before: DataCard, now: DataCard, *, bakeoff: str, at: str) -> Drift:
    """Return what has changed by more than ``THRESHOLD`` from one card of a dataset to another.

    Args:
        before: The card of the earlier bake-off.
        now: The card of today.
        bakeoff: The id of the earlier bake-off.
        at: When that was started.
    """
    if before.digest == now.digest:
        # The same interactions may still be split in another way.
        changes = tuple(_cold(before, now))
    else:
        changes = (*_sizes(before, now), *_shares(before, now), *_shapes(before, now), *_cold(before, now))
    spans = [None if card.times is None else (card.times.first, card.times.last) for card in (before, now)]
    return Drift(now.name, bakeoff, at, before.digest == now.digest, changes, *spans)


def total_variation(before: Sequence[float], now: Sequence[float]) -> float:
    """Return the total variation distance of two distributions, given by counts of the same values.

    Half the sum of the absolute differences of the shares: the part that would have to move to make them equal.

    Source: D. A. Levin, Y. Peres, Markov Chains and Mixing Times, 2nd edition, American Mathematical Society (2017),
    proposition 4.2.
    """
    size = max(len(before), len(now))
    parts = [[*counts, *[0] * (size - len(counts))] for counts in (before, now)]
    shares = [[count / sum(counts) for count in counts] for counts in parts]
    return 0.5 * sum(abs(a - b) for a, b in zip(shares[0], shares[1], strict=True))


def _sizes(before: DataCard, now: DataCard) -> Iterator[CardChange]:
    for name in ("interactions", "users", "items"):
        then, today = getattr(before, name), getattr(now, name)
        if abs(today - then) > THRESHOLD * then:
            yield CardChange(name, "size", then, today, today / then - 1)


def _shares(before: DataCard, now: DataCard) -> Iterator[CardChange]:
    yield from _difference("Gini coefficient of users", before.by_user.gini, now.by_user.gini)
    yield from _difference("Gini coefficient of items", before.by_item.gini, now.by_item.gini)
    yield from _difference("long tail", before.long_tail, now.long_tail)


def _shapes(before: DataCard, now: DataCard) -> Iterator[CardChange]:
    yield from _distance("interactions per user", before.by_user.sizes, now.by_user.sizes)
    yield from _distance("interactions per item", before.by_item.sizes, now.by_item.sizes)
    if before.ratings is not None and now.ratings is not None:
        counts = _aligned(before.ratings, now.ratings)
        if counts is None:
            yield CardChange("ratings: other values", "shape", None, None, None)
        else:
            yield from _distance("ratings", *counts)
    elif before.ratings is not now.ratings:
        yield CardChange(
            f"ratings: {'none before' if before.ratings is None else 'none now'}", "shape", None, None, None
        )


def _cold(before: DataCard, now: DataCard) -> Iterator[CardChange]:
    earlier = {split.name: split for split in before.splits}
    for split in now.splits:
        if split.name in earlier:
            then = earlier[split.name].cold_shares()
            for name, share in split.cold_shares().items():
                cold = plural(split.unit) if name == "users" else name
                yield from _difference(f"cold {cold}, split {split.name}", then[name], share)


def _difference(name: str, before: float, now: float) -> Iterator[CardChange]:
    if abs(now - before) > THRESHOLD:
        yield CardChange(name, "share", before, now, now - before)


def _distance(name: str, before: Sequence[float], now: Sequence[float]) -> Iterator[CardChange]:
    if (distance := total_variation(before, now)) > THRESHOLD:
        yield CardChange(name, "shape", None, None, distance)


def _aligned(before: Sequence[Rating], now: Sequence[Rating]) -> tuple[list[float], list[float]] | None:
    """Return the counts of the same ratings and ranges; None where some of them overlap."""
    counts = [{(r.low, r.high): float(r.interactions) for r in ratings} for ratings in (before, now)]
    every = sorted({*counts[0], *counts[1]})
    overlap = any(high >= low for (_, high), (low, _) in pairwise(every))
    if overlap and counts[0].keys() != counts[1].keys():
        return None
    return [counts[0].get(key, 0.0) for key in every], [counts[1].get(key, 0.0) for key in every]


@dataclass(frozen=True)
class DescribedData:
    """The cards of all datasets of a bake-off, and how each dataset differs from an earlier bake-off's."""

    cards: tuple[DataCard, ...]
    drifts: Mapping[str, Drift | str]  # by dataset; text: why it is not known

    def as_mapping(self) -> dict[str, Any]:
        """Return everything as plain JSON values: ``datasets``, each with ``drift`` and, without one, ``no_drift``."""
        datasets = []
        for card in self.cards:
            drift = self.drifts.get(card.name)
            known: dict[str, Any] = {"drift": None, "no_drift": drift}
            if isinstance(drift, Drift):
                known = {"drift": asdict(drift), "no_drift": None}
            datasets.append(asdict(card) | known)
        return {"datasets": datasets}

    @staticmethod
    def cards_from(values: Mapping[str, Any]) -> dict[str, DataCard]:
        """Return the cards that ``as_mapping`` has made plain values of, by dataset.

        Raises:
            KeyError, TypeError, ValidationError: They are no cards.
        """
        # Its keys beside those of the card, on drift, are left out.
        cards = TypeAdapter(list[DataCard]).validate_python(values["datasets"])
        return {card.name: card for card in cards}


def drifts_since(
    client: mlflow.MlflowClient, experiment_id: str, cards: Sequence[DataCard], *, bakeoff: str = ""
) -> dict[str, Drift | str]:
    """Return how each dataset differs from the latest bake-off with a dataset of its name, or why that is not known.

    Args:
        client: Of the store.
        experiment_id: Where to look.
        cards: Of the datasets now.
        bakeoff: The id of the bake-off that is not an earlier one.
    """
    runs = [
        run
        for run in search_runs(client, [experiment_id], SUMMARY_RUNS, limit=_EARLIER)
        if run.bakeoff != bakeoff and run.status in DONE
    ]
    drifts: dict[str, Drift | str] = {}
    without = ""
    for run in runs:
        if len(drifts) == len(cards):
            break
        earlier = _cards(run)
        if earlier is None:
            without = without or run.bakeoff
            continue
        for card in cards:
            if card.name in earlier and card.name not in drifts:
                at = run.started.isoformat(timespec="seconds")
                drifts[card.name] = drift_between(earlier[card.name], card, bakeoff=run.bakeoff, at=at)
    if without:
        reason = f"the bake-off {without} has no data card: nothing to compare the data with"
    else:
        reason = "no earlier bake-off of this experiment has a dataset of this name" if runs else _NO_EARLIER
    return {card.name: drifts.get(card.name, reason) for card in cards}


def _cards(run: LoggedRun) -> dict[str, DataCard] | None:
    """Return the cards of a bake-off by dataset; None where it has none that can be read."""
    try:
        values = run.json_file(CARD)
        return None if values is None else DescribedData.cards_from(values)
    except (TrackingError, KeyError, TypeError, ValueError):  # damaged, or of another version
        return None
