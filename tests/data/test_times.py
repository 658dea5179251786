"""Times have the resolution of the data: events within a second are ordered, cut and merged by their fractions."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evalplugin.base.errors import DataError
from evalplugin.data import (
    DATASETS,
    GivenSplit,
    Holdout,
    Interactions,
    KFold,
    LastN,
    LoadContext,
    NewItems,
    NewUsers,
    NextItem,
    SampleUsers,
    Split,
    Splitter,
    Temporal,
)
from evalplugin.data.background import background_of
from evalplugin.data.filters import Period
from evalplugin.data.times import moment_text, number_text, timestamp_of
from evalplugin.execution.shared import read_value, write_value

START = 1_700_000_000  # 2023-11-14T22:13:20Z
UNITS = {"ms": 10**3, "us": 10**6, "ns": 10**9}


def events(users: int = 100) -> pd.DataFrame:
    """Four events of each user within a second, 0.2 s apart, in shuffled rows; ``time`` is in milliseconds."""
    rng = np.random.default_rng(0)
    user, step = np.divmod(np.arange(4 * users), 4)
    second = START + rng.integers(0, 10**6, users)[user]
    frame = pd.DataFrame({"user": user, "item": rng.permutation(4 * users) % 97, "step": step})
    frame["time"] = 1000 * second + 200 * step
    frame = frame.drop_duplicates(["user", "item"])
    return frame.sample(frac=1, random_state=1, ignore_index=True).assign(row=np.arange(len(frame)))


def datetimes(milliseconds: Any, unit: str = "ms") -> Any:
    return np.asarray(milliseconds).astype("M8[ms]").astype(f"M8[{unit}]")


AS = {
    "datetimes in ms": datetimes,
    "datetimes in us": lambda ms: datetimes(ms, "us"),
    "datetimes in ns": lambda ms: datetimes(ms, "ns"),
    "datetimes with a zone": lambda ms: (
        pd.Series(datetimes(ms)).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
    ),
    "datetimes as objects": lambda ms: pd.Series(datetimes(ms, "us").tolist(), dtype=object),
    "float seconds": lambda ms: ms / 1000,
}


def made(times: Any, frame: pd.DataFrame | None = None, **options: Any) -> Interactions:
    """Return the events with their times in some form; the rating is the number of the row."""
    frame = (events() if frame is None else frame).assign(time=times)
    return Interactions.from_frame(frame, timestamp="time", **{"rating": "row", **options})


def rows(data: Interactions | None) -> list[int]:
    return data.rating.astype(int).tolist()


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.mark.parametrize("form", AS)
def test_the_last_event_within_a_second_is_held_out_whatever_the_form_of_the_times(form: str) -> None:
    frame = events()
    data = made(AS[form](frame["time"]), frame)
    [fold] = LastN(n=1).split(data, rng())
    last = frame.groupby("user")["step"].transform("max") == frame["step"]
    assert rows(fold.test) == frame["row"][last].tolist()
    assert (data.notes, fold.notes) == ((), ())  # nothing is rounded, no times are equal
    [of_integers] = LastN(n=1).split(made(frame["time"], frame), rng())
    assert rows(of_integers.test) == rows(fold.test)
    # The same times are the same data, and random streams that are named by it are the same.
    assert data.digest == made(datetimes(frame["time"]), frame).digest
    assert data.timestamp.dtype == np.int64
    assert data.timestamp.tolist() == (frame["time"] // 1000).tolist()


@pytest.mark.parametrize("split", [Holdout(fraction=0.3), KFold(k=3)])
def test_rows_of_events_within_a_second_may_come_in_any_order(split: Splitter) -> None:
    frame = pd.DataFrame({"user": 1, "item": [1, 2] * 20, "time": np.arange(40) / 10})
    found = []
    for rows_in_order in (frame, frame.sample(frac=1, random_state=1)):
        data = Interactions.from_frame(rows_in_order, timestamp="time", duplicates="keep")
        test = split.split(data, rng())[0].test
        found.append(sorted(zip(test.item.tolist(), test.time.tolist(), strict=True)))
    assert found[0] == found[1]


def test_equal_times_are_drawn_by_the_seed_at_the_resolution_of_the_data() -> None:
    frame = events()
    frame["time"] -= frame["time"] % 1000 % 400  # 0, 0, 0.4 and 0.4 s
    [fold] = LastN(n=1).split(made(datetimes(frame["time"]), frame), rng())
    assert fold.notes[0].endswith("interactions are held out is drawn by the seed")


def splits(per: int) -> dict[str, Splitter]:
    """Return splits of times of which so many units make a second."""
    return {
        "last_n": LastN(n=2),
        "sample_users": SampleUsers(n_users=50, n=1),
        "new_users": NewUsers(n_users=30, fold_in="before_last_n", n=1),
        "new_items": NewItems(n_items=9, hold="latest"),
        "quantile": Temporal(quantile=0.4),
        "periods": Temporal(every=86_400 * per, folds=3, window=90_000 * per, gap=60 * per),
        "quantile and periods": Temporal(quantile=0.5, every=86_400 * per, folds=2, gap=per),
        "cutoff": Temporal(cutoff=per * (START + 5 * 10**5)),
    }


@pytest.mark.parametrize("name", splits(1))
@pytest.mark.parametrize("form", ["datetimes in ns", "float seconds"])
def test_splits_cut_fractions_as_they_cut_integers(name: str, form: str) -> None:
    frame = events()
    folds = splits(1)[name].split(made(AS[form](frame["time"]), frame), rng())
    expected = splits(1000)[name].split(made(frame["time"], frame), rng())
    assert [(rows(fold.train), rows(fold.test)) for fold in folds] == [
        (rows(fold.train), rows(fold.test)) for fold in expected
    ]


def test_a_quantile_within_a_second_cuts_between_its_events_and_names_the_time() -> None:
    frame = events(1)
    [fold] = Temporal(quantile=0.5).split(made(datetimes(frame["time"]), frame), rng())
    assert sorted(frame.set_index("row")["step"][rows(fold.test)]) == [2, 3]
    assert fold.notes == (f"the temporal cut is at {int(frame['time'].min()) // 1000}.4",)


def test_dates_with_fractions_cut_between_the_events_of_a_second() -> None:
    frame = pd.DataFrame({"user": 1, "item": range(4), "time": [0, 200, 400, 600], "row": range(4)})
    data = made(datetimes(1000 * START + frame["time"]), frame)
    for cutoff, first in [("20.4Z", 2), ("20.3999999999Z", 2), ("20.400000001Z", 3), ("20.2+00:00", 1)]:
        [fold] = Temporal(cutoff=f"2023-11-14T22:13:{cutoff}").split(data, rng())
        assert rows(fold.test) == list(range(first, 4)), cutoff
    [fold] = Temporal(cutoff="2023-11-14T22:13:20.2", every="1s").split(data, rng())
    assert fold.notes == (
        "train from 2023-11-14T22:13:20Z until 2023-11-14T22:13:20.200Z, test from 2023-11-14T22:13:20.200Z until "
        "2023-11-14T22:13:21.200Z, the last interaction is at 2023-11-14T22:13:20.600Z",
    )
    kept = Period("2023-11-14T22:13:20.2", "2023-11-14T22:13:20.6").keep(data).mask
    assert kept.tolist() == [False, True, True, False]
    # Whole seconds are at or after a date with a fraction from the next second on.
    whole = made(START + np.arange(4), frame)
    [fold] = Temporal(cutoff="2023-11-14T22:13:21.5").split(whole, rng())
    assert rows(fold.test) == [2, 3]


def test_periods_that_do_not_fit_are_told_in_lengths_that_fit() -> None:
    frame = pd.DataFrame({"user": 1, "item": range(3), "time": [0, 2500, 9700], "row": range(3)})
    data = made(datetimes(1000 * START + frame["time"]), frame)
    with pytest.raises(DataError, match=r"until 2023-11-14T22:13:22.200Z; .* at least 3s reaches"):
        Temporal(cutoff="2023-11-14T22:13:25.2", window="1s", gap="3s").split(data, rng())
    with pytest.raises(DataError, match=r"make every at most 4s"):
        Temporal(folds=2, every="5s").split(data, rng())
    assert len(Temporal(cutoff="2023-11-14T22:13:25.2", window="3s", gap="3s").split(data, rng())) == 1


def test_the_window_of_a_model_for_production_ends_with_the_last_event() -> None:
    frame = pd.DataFrame({"user": 1, "item": range(3), "time": [100, 300, 1200], "row": range(3)})
    data = made(datetimes(1000 * START + frame["time"]), frame)
    assert rows(Temporal(quantile=0.5, window="1s").newest(data)) == [1, 2]


def test_sessions_that_end_within_a_second_are_in_order() -> None:
    frame = pd.DataFrame(
        [(3, 1, 0), (3, 2, 100), (2, 1, 50), (2, 2, 300), (1, 1, 0), (1, 2, 200)],
        columns=["user", "item", "time"],
    ).assign(row=range(6))
    data = made(datetimes(1000 * START + frame["time"]), frame, duplicates="keep")
    [fold] = NextItem(test="n_sessions", n_sessions=1).split(data, rng())
    assert fold.test.users[fold.test.user].tolist() == ["2:1"]
    assert fold.notes == ("1 queries of 1 sessions",)
    # The last day begins 86,400 s before the end, to the tick.
    frame["time"] += np.where(frame["user"] == 2, 86_400_000, 0)

    def tested(later: int) -> list[str]:
        times = datetimes(1000 * START + frame["time"] + later * (frame["user"] == 1))
        [fold] = NextItem().split(made(times, frame, duplicates="keep"), rng())
        return list(fold.test.users)

    assert "1:1" in tested(100)
    assert "1:1" not in tested(99)


def test_merged_events_have_the_time_and_place_of_the_latest() -> None:
    frame = pd.DataFrame(
        [(1, 5, 900), (1, 6, 500), (1, 5, 100), (1, 6, 700)], columns=["user", "item", "time"]
    ).assign(row=range(4))
    data = made(datetimes(1000 * START + frame["time"]), frame, duplicates="keep", rating=None)
    whole = data.merged()
    assert whole.items[whole.item].tolist() == [6, 5]
    assert (whole.time - 1000 * START).tolist() == [700, 900]
    first = data.merged(first=True)
    assert dict(zip(first.items[first.item].tolist(), (first.time - 1000 * START).tolist(), strict=True)) == {
        5: 100,
        6: 500,
    }


def test_parts_that_come_with_the_data_keep_their_times() -> None:
    frame = events(20)
    frame["part"] = np.where(frame["step"] == 3, "test", "train")
    data = DATASETS.create(
        "dataframe",
        {"frame": frame.assign(time=datetimes(frame["time"])), "timestamp": "time", "part": "part"},
    ).load(LoadContext())
    [fold] = GivenSplit().split(data, rng())
    assert set(np.asarray(fold.test.time) % 1000) == {600}
    assert set(np.asarray(fold.train.time) % 1000) == {0, 200, 400}


@pytest.mark.parametrize("unit", UNITS)
def test_tables_of_interactions_read_back_as_the_same_data(unit: str) -> None:
    frame = events()
    times = datetimes(frame["time"], unit)
    times[0] += np.timedelta64(1, unit)  # so that no coarser unit is exact
    data = made(times, frame)
    assert data.ticks_per_second == UNITS[unit]
    written = data.to_frame()
    assert written["timestamp"].dtype == f"datetime64[{unit}]"
    assert made(written["timestamp"], frame).digest == data.digest
    whole = made(frame["time"] // 1000, frame)
    assert whole.to_frame()["timestamp"].dtype == np.int64


def test_copies_of_data_keep_its_times(tmp_path: Path) -> None:
    frame = events()
    data = made(datetimes(frame["time"]), frame)
    [fold] = NewUsers(n_users=30, fold_in="before_last_n", n=1).split(data, rng())
    write_value(data, tmp_path / "shared")
    assert read_value(tmp_path / "shared").digest == data.digest
    assert len(fold.known.time) == len(fold.known)


def test_histories_of_artifacts_are_latest_first_and_have_their_times() -> None:
    frame = events(10)
    data = made(datetimes(frame["time"]), frame)
    [fold] = LastN(n=1).split(data, rng())
    background = background_of(data, [(fold.train, fold.test)])
    history = background.history.to_pandas()
    assert history["timestamp"].dtype == "datetime64[ms]"
    for _, own in history.groupby("user"):
        assert own["timestamp"].is_monotonic_decreasing
        assert own["timestamp"].is_unique
    file = io.BytesIO()
    pq.write_table(background.truth, file)
    assert pq.read_table(file).schema.field("timestamp").type == pa.timestamp("ms")


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_parquet_arrow_and_polars_are_read_to_their_resolution(unit: str, tmp_path: Path) -> None:
    frame = events()
    expected = made(datetimes(frame["time"]), frame, rating=None)
    table = pa.table({"user": frame["user"], "item": frame["item"], "time": datetimes(frame["time"], unit)})
    pq.write_table(table, tmp_path / "events.parquet")
    of_file = DATASETS.create("parquet", {"path": "events.parquet", "timestamp": "time"})
    tables: list[Any] = [table, table.slice(0, len(table)), table.to_pandas()]
    polars = pytest.importorskip("polars")
    tables.append(polars.from_arrow(table))
    for loader in [
        of_file,
        *(DATASETS.create("dataframe", {"frame": t, "timestamp": "time"}) for t in tables),
    ]:
        data = loader.load(LoadContext(base=tmp_path))
        assert data.digest == expected.digest
        assert data.notes == ()


@pytest.mark.parametrize("text", ["%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S.%fZ", "%s"])
def test_times_of_csv_files_are_read_to_their_resolution(text: str, tmp_path: Path) -> None:
    frame = events()
    expected = made(datetimes(frame["time"]), frame, rating=None)
    times = frame["time"] / 1000 if text == "%s" else pd.Series(datetimes(frame["time"])).dt.strftime(text)
    written = frame.assign(time=times)[["user", "item", "time"]]
    written.to_csv(tmp_path / "events.csv", index=False)
    data = DATASETS.create("csv", {"path": "events.csv", "timestamp": "time"}).load(
        LoadContext(base=tmp_path)
    )
    assert data.digest == expected.digest


@pytest.mark.parametrize(
    ("times", "ticks", "time", "rounded"),
    [
        ([1.5, -0.25], 1000, [1500, -250], 0),
        ([1e9 + 0.1, 1e9 + 0.2], 1000, [10**12 + 100, 10**12 + 200], 0),
        ([1.7e9 + 2.0**-22, 1.7e9], 10**9, [1_700_000_000_000_000_238, 17 * 10**17], 0),  # neighbours
        ([0.1, 0.123456789], 10**9, [100_000_000, 123_456_789], 0),
        ([0.1 + 2.0**-40, 0.5], 10**9, [100_000_000, 500_000_000], 1),
        ([-1e-20, 0.5], 10**9, [0, 500_000_000], 1),
        ([0.9999999999999999, 2.5], 10**9, [10**9, 2_500_000_000], 1),
        (np.array([0.1, 0.2], dtype=np.float32), 1000, [100, 200], 0),
        ([1.7e12 + 0.25, 1.7e12], 1000, [1_700_000_000_000_250, 17 * 10**14], 0),  # fractions of milliseconds
        ([1e18, 0.75], 1, [10**18, 1], 1),  # no finer ticks fit into 64 bits
        (np.array([-1, 2**63 - 1]).astype("M8[ns]"), 10**9, [-1, 2**63 - 1], 0),
        (np.array([1 - 2**63, 5]).astype("M8[ns]"), 10**9, [1 - 2**63, 5], 0),  # the first datetime in ns
        (np.array([1 - 2**63, 10**6]).astype("M8[us]"), 10**6, [1 - 2**63, 10**6], 0),
        ([2**63 - 1, -(2**63)], 1, [2**63 - 1, -(2**63)], 0),
    ],
)
def test_times_are_exact_in_the_coarsest_unit(times: Any, ticks: int, time: list[int], rounded: int) -> None:
    data = Interactions.from_frame(
        pd.DataFrame({"user": [1, 2], "item": [1, 2], "when": times}), timestamp="when"
    )
    assert (data.ticks_per_second, data.time.tolist()) == (ticks, time)
    unit = {1: "s", 10**9: "ns"}.get(ticks)
    note = f"rounded {rounded} timestamps to 1 {unit} (column 'when')"
    assert data.notes == ((note,) if rounded else ())
    assert data.timestamp.tolist() == [t // ticks for t in time]


exact_times = st.lists(st.integers(-(10**10), 10**10), min_size=2, max_size=12, unique=True)


@given(
    offsets=exact_times,
    start=st.sampled_from([0, START, -START]),
    unit=st.sampled_from(list(UNITS)),
    floats=st.booleans(),
    cut=st.fractions(-10, 10),
)
@example(offsets=[0, 9_999_999_947], start=0, unit="ms", floats=True, cut=Fraction(0))
def test_order_and_cuts_are_those_of_the_exact_times(offsets, start, unit, floats, cut):
    per = UNITS[unit]
    ticks = [start * per + offset for offset in offsets]
    if floats:
        column = np.array([t / per for t in ticks])
        exact = [Fraction(t) for t in column.tolist()]
        exact = (
            [Fraction(round(t * 10**9), 10**9) for t in exact]
            if unit == "ns" or np.abs(column).max() < 10**6  # else neighbours are further apart than 10^-9
            else [Fraction(t, per) for t in ticks]
        )  # floats of up to six digits are the numbers that were written
    else:
        column = np.array(ticks).astype(f"M8[{unit}]")
        exact = [Fraction(t, per) for t in ticks]
    frame = pd.DataFrame({"user": 1, "item": np.arange(len(ticks)), "when": column})
    data = Interactions.from_frame(frame, timestamp="when")
    time = data.time
    assert [Fraction(int(t), data.ticks_per_second) for t in time] == exact
    at_or_after = time >= ceil((start + cut) * data.ticks_per_second)
    assert at_or_after.tolist() == [t >= start + cut for t in exact]
    assert data.timestamp.tolist() == [t // 1 for t in exact]


@given(times=st.lists(st.floats(1.6e9, 1.8e9), min_size=2, max_size=12, unique=True))
def test_different_floats_of_today_are_different_times(times: list[float]) -> None:
    frame = pd.DataFrame({"user": 1, "item": np.arange(len(times)), "when": times})
    data = Interactions.from_frame(frame, timestamp="when")
    assert np.argsort(data.time).tolist() == np.argsort(times).tolist()
    assert len(set(data.time.tolist())) == len(times)
    assert data.notes == ()


def test_selected_and_joined_interactions_keep_their_times() -> None:
    frame = events(5)
    data = made(datetimes(frame["time"]), frame)
    half = np.arange(len(data)) % 2 == 0
    assert data.select(half).time.tolist() == data.time[half].tolist()
    assert data.restrict(half).time.tolist() == data.time[half].tolist()
    assert replace(data, timestamp=None).time is None
    fold = Split(data.select(half), data.select(~half))
    assert fold.train.digest != fold.test.digest


def test_dates_are_exact_and_shown_to_the_tick() -> None:
    assert timestamp_of("1970-01-01T00:00:01.5", "it") == Fraction(3, 2)
    assert timestamp_of("1969-12-31T23:59:59.25+00:00", "it") == Fraction(-3, 4)
    assert timestamp_of("1970-01-01T00:00:00.123456789", "it") == Fraction(123_456_789, 10**9)
    assert timestamp_of("1970-01-01T01:00:00,1234567+01:00", "it") == Fraction(1_234_567, 10**7)
    assert timestamp_of(5, "it") == 5
    assert moment_text(-1, 1000) == "1969-12-31T23:59:59.999Z"
    assert moment_text(START) == datetime.fromtimestamp(START, UTC).isoformat().replace("+00:00", "Z")
    assert moment_text(10**12 * 1000 + 5, 1000) == "1000000000000.005"
    assert moment_text(-(10**11) + 1) == str(-(10**11) + 1)  # before the year 1
    assert (number_text(-1, 1000), number_text(10**9, 10**9), number_text(7, 1)) == ("-0.001", "1", "7")
