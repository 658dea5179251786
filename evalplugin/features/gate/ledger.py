"""The decisions of gates, counted in tags of their experiment, where they outlive the runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from evalplugin.base.errors import DataError
from evalplugin.base.fingerprint import fingerprint
from evalplugin.base.text import json_of
from evalplugin.execution.results import DataSplit
from evalplugin.features.gate.decision import Decision, DecisionBudget
from evalplugin.tracking.connection import FAIL_FAST, existing_store, store_exists
from evalplugin.tracking.names import shorten_value
from evalplugin.tracking.read.logged import LoggedRun
from evalplugin.tracking.read.runs import bakeoff_of, search_runs

_PREFIX = "evalplugin.decision."
_SPENDING = (
    "tags.`evalplugin.error_spent` != '' and tags.`evalplugin.decided_dataset` = '{}' and "
    "tags.`evalplugin.decided_split` = '{}'"
)
_MOST = 1000  # characters of the ids of bake-offs in a tag
_ANEW = "Restore the tags from a backup of the store, or begin anew in another experiment, where all decisions are left"
_AT_ONCE = (
    "another gate of this experiment decided at the same time: its decision counts as taken before this one"
)


@dataclass(frozen=True)
class Ledger:
    """The decisions taken with ``gate.decisions`` in an experiment, on one dataset and split.

    Each bake-off that is decided has a tag of the experiment with the error that it spent; what its gate asked for
    beyond that does not matter. A tag stays when runs are deleted, and carries a digest of its content: one that was
    changed is refused, and so are fewer than the last decision had counted. Who may write to the store can still forge
    all of it.
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

    @classmethod
    def beside(cls, tracking_uri: str | None, run_ids: Sequence[str], place: DataSplit) -> Self:
        """Return the ledger of the experiment of runs that are decided on.

        Raises:
            TrackingError: The store cannot be reached.
        """
        with existing_store(tracking_uri, "read earlier decisions", settings=FAIL_FAST) as client:
            runs = [LoggedRun(client, client.get_run(run_id)) for run_id in run_ids]
        bakeoff = shorten_value(bakeoff_of(runs), _MOST)
        return cls(client.tracking_uri, runs[0].experiment_id, place, bakeoff)

    def budget(self, decisions: int) -> DecisionBudget:
        """Return what the other decisions have left of ``decisions``.

        Raises:
            DataError: What was counted is damaged, or less than was decided.
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
        """Return what each bake-off has spent, by its id."""
        if self.experiment is None:
            return {}
        with existing_store(self.uri, "read earlier decisions", settings=FAIL_FAST) as client:
            query = _SPENDING.format(*(name.replace("'", "''") for name in self.place))
            latest = search_runs(client, [self.experiment], query, limit=1, deleted=True)
            # Read after the runs: whoever decides writes here before there.
            tags = client.get_experiment(self.experiment).tags
            spent = dict(
                filter(None, (self._entry(key, tags[key]) for key in tags if key.startswith(_PREFIX)))
            )
        for run in latest:
            self._check(run, spent)
        return spent

    def _entry(self, key: str, text: str) -> tuple[str, float] | None:
        """Return bake-off and error of a tag; None: it is of another dataset or split."""
        try:
            entry = json_of(text)
            bakeoff, error = str(entry["bakeoff"]), float(entry["error"])
            place = DataSplit(entry["dataset"], entry["split"])
            if not 0 <= error <= 1 or _tag(place, bakeoff, error) != (key, text):
                raise ValueError
        except (ValueError, TypeError, KeyError):
            raise DataError(
                f"the tag {key} of the experiment with the id {self.experiment} has been changed: {text[:200]!r} is no "
                f"decision as it was counted. {_ANEW}"
            ) from None
        return (bakeoff, error) if place == self.place else None

    def _check(self, latest: LoggedRun, spent: Mapping[str, float]) -> None:
        """Check that the latest decision and those that it had counted are still there."""
        bakeoff, error = _spent_by(latest)
        counted = _value(latest, "decisions", int) - _value(latest, "decisions_left", int)
        if spent.get(bakeoff, 0.0) < error or len(spent) < counted:
            raise DataError(
                f"decisions of the experiment with the id {self.experiment} are missing among its tags "
                f"{_PREFIX}*: {latest} is number {counted:,} and spent {error:.3g}, and {len(spent):,} are counted, "
                f"{spent.get(bakeoff, 0.0):.3g} for it: tags were deleted or changed. {_ANEW}"
            )

    def _write(self, error: float) -> None:
        """Count what the bake-off has spent."""
        assert self.experiment is not None  # the runs that are decided on are in it
        with existing_store(self.uri, "count the decision") as client:
            client.set_experiment_tag(self.experiment, *_tag(self.place, self.bakeoff, error))


def _tag(place: DataSplit, bakeoff: str, error: float) -> tuple[str, str]:
    """Return the key and the value of the tag of a bake-off."""
    entry = {"bakeoff": bakeoff, **place._asdict(), "error": error}
    key = fingerprint([*place, bakeoff])
    return _PREFIX + key, json.dumps({**entry, "check": fingerprint(entry)})


def _spent_by(run: LoggedRun) -> tuple[str, float]:
    """Return the bake-off that a run has a decision on, and the error that it spent."""
    error = _value(run, "error_spent", float)
    if not 0 <= error <= 1:
        raise _damaged(run, "error_spent")
    return shorten_value(run.tag("decided_bakeoff") or run.bakeoff, _MOST), error


def _value(run: LoggedRun, key: str, of: Callable[[str], float]) -> float:
    try:
        return of(run.tag(key))
    except ValueError:
        raise _damaged(run, key) from None


def _damaged(run: LoggedRun, key: str) -> DataError:
    return DataError(
        f"{run} of the experiment with the id {run.experiment_id} has the tag evalplugin.{key} = {run.tag(key)!r}, "
        f"which no gate has logged: what was decided cannot be counted. {_ANEW}"
    )
