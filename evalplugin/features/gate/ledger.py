"""The decisions of gates, counted in tags of their experiment, where they outlive the runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Self

from evalplugin.base.errors import DataError
from evalplugin.base.fingerprint import fingerprint
from evalplugin.base.places import DataSplit
from evalplugin.base.text import json_of
from evalplugin.features.gate.decision import Decision, DecisionBudget
from evalplugin.tracking.connection import FAIL_FAST, existing_store, store_exists

_PREFIX = "evalplugin.decision."
_AT_ONCE = (
    "another gate of this experiment decided at the same time: its decision counts as taken before this one"
)


@dataclass(frozen=True)
class Ledger:
    """The decisions taken with ``gate.decisions`` in an experiment, on one dataset and split.

    Each bake-off that is decided has a tag of the experiment with the error that it spent; what its gate asked for
    beyond that does not matter. A tag stays when runs are deleted.
    """

    uri: str
    experiment: str | None  # its id; None: there is none yet
    place: DataSplit
    bakeoff: str = ""  # the one that is decided, whose earlier decisions do not count

    @classmethod
    def open(cls, uri: str, experiment: str, place: DataSplit, bakeoff: str = "") -> Self:
        """Return the ledger of the experiment of that name; ``uri`` is absolute.

        Raises:
            TrackingError: The store cannot be reached.
        """
        home = None
        if store_exists(uri):
            with existing_store(uri, "read earlier decisions", settings=FAIL_FAST) as client:
                home = client.get_experiment_by_name(experiment)
        return cls(uri, None if home is None else home.experiment_id, place, bakeoff)

    def budget(self, decisions: int) -> DecisionBudget:
        """Return what the other decisions have left of ``decisions``.

        Raises:
            DataError: A tag that counts a decision cannot be read.
            TrackingError: The store cannot be reached.
        """
        return self._budget(self._spent(), decisions)

    def decide(self, decisions: int, decide: Callable[[DecisionBudget], Decision]) -> Decision:
        """Return the decision, counted unless it is a refusal, whatever others decide at the same time.

        What it spends is written, and then what others have spent is read again: of two at once, at least one sees the
        other, and decides anew with what that one has left.

        Raises:
            DataError: As ``budget``.
            TrackingError: The store cannot be reached or refuses.
        """
        before = self._spent()
        decision = decide(self._budget(before, decisions))
        if decision.outcome == "refuse":
            return decision
        own = before.get(self.bakeoff, 0.0)
        self._write(max(own, decision.error_spent))
        after = self._spent()
        if after.keys() == before.keys() | {self.bakeoff}:
            return decision
        budget = self._budget(after, decisions)
        # More at once than are left each find none left, and not too many taken.
        decision = decide(replace(budget, taken=min(budget.taken, decisions)))
        self._write(max(own, decision.error_spent))
        return replace(decision, notes=(*decision.notes, _AT_ONCE))

    def _budget(self, spent: Mapping[str, float], decisions: int) -> DecisionBudget:
        others = [error for bakeoff, error in spent.items() if error > 0 and bakeoff != self.bakeoff]
        return DecisionBudget(decisions, len(others), sum(others))

    def _spent(self) -> dict[str, float]:
        """Return the error that each bake-off has used, by its id."""
        if self.experiment is None:
            return {}
        with existing_store(self.uri, "read earlier decisions", settings=FAIL_FAST) as client:
            tags = client.get_experiment(self.experiment).tags
        entries = [self._entry(key, text) for key, text in tags.items() if key.startswith(_PREFIX)]
        return {bakeoff: error for place, bakeoff, error in entries if place == self.place}

    def _entry(self, key: str, text: str) -> tuple[DataSplit, str, float]:
        """Return the dataset and split, the bake-off and the error of a tag."""
        try:
            entry = json_of(text)
            error = float(entry["error"])
            if 0 <= error <= 1:
                return DataSplit(entry["dataset"], entry["split"]), str(entry["bakeoff"]), error
        except (ValueError, TypeError, KeyError):
            pass
        raise DataError(
            f"the tag {key} of the experiment with the id {self.experiment} is not a count of decisions: "
            f"{text[:200]!r}; restore it, or begin anew in another experiment, where all decisions are left"
        )

    def _write(self, error: float) -> None:
        """Add the error that the bake-off has used."""
        assert self.experiment is not None  # the bake-off's runs are in it
        with existing_store(self.uri, "count the decision") as client:
            entry = {"bakeoff": self.bakeoff, **self.place._asdict(), "error": error}
            key = _PREFIX + fingerprint([*self.place, self.bakeoff])
            client.set_experiment_tag(self.experiment, key, json.dumps(entry))
