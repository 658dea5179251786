"""The command `new bakeoff` writes a config that runs, by options or by three questions."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from evalplugin.cli import main
from evalplugin.data.datasets.tables import guessed_roles

USERS = ("user", "userId", "user_id", "uid", "userID", "Customer No", "reviewerID", "visitorid", "session_id")
ITEMS = ("item", "movieId", "item_id", "asin", "product_id", "ProductId", "stock_code", "isbn")
RATINGS = ("rating", "score", "stars", "overall")
TIMES = ("timestamp", "time", "ts", "date", "createdAt", "unixReviewTime")


def ratings(columns: dict[str, str], times: bool = True) -> pd.DataFrame:
    """Return 1,500 ratings of 60 users, with a name for each column."""
    random = np.random.default_rng(0)
    pairs = random.permutation(60 * 50)[:1500]
    frame = pd.DataFrame({"user": pairs // 50, "item": pairs % 50, "rating": random.integers(1, 6, 1500)})
    if times:
        frame["timestamp"] = random.integers(1_600_000_000, 1_700_000_000, 1500)
    return frame.rename(columns=columns)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch):
    """Return a function that makes a terminal in which these lines are typed."""

    def type_in(*lines: str) -> None:
        typed = io.StringIO("".join(f"{line}\n" for line in lines))
        typed.isatty = lambda: True
        monkeypatch.setattr(sys, "stdin", typed)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)

    return type_in


def written(file: str) -> dict:
    return yaml.safe_load(Path(file).read_text("utf-8"))


@given(
    st.permutations([st.sampled_from(names) for names in (USERS, ITEMS, RATINGS, TIMES)]).flatmap(
        lambda columns: st.tuples(*columns)
    )
)
def test_columns_are_guessed_by_their_names_in_any_order(names: tuple[str, ...]) -> None:
    roles = guessed_roles([*names, "title", "genres", "price", "release_date"])
    kinds = {"user": USERS, "item": ITEMS, "rating": RATINGS, "timestamp": TIMES}
    assert {role: name in kinds[role] for role, name in roles.items()} == dict.fromkeys(kinds, True)


def test_a_column_of_ids_is_taken_before_a_name() -> None:
    assert guessed_roles(["user", "movie", "userId", "movieId"]) == {"user": "userId", "item": "movieId"}


def test_its_config_runs(store: Path) -> None:
    ratings({"user": "uid", "item": "asin", "rating": "stars", "timestamp": "ts"}).to_csv(
        "r.csv", index=False
    )
    assert main(["new", "bakeoff", "shop", "--data", "r.csv"]) == 0
    config = written("shop.yaml")
    assert config["datasets"] == [
        {"name": "shop", "type": "csv", "path": "r.csv", "user": "uid", "item": "asin", "rating": "stars",
         "timestamp": "ts"}
    ]  # fmt: skip
    assert (config["split"], config["relevance"]) == ({"type": "last_n", "n": 5}, {"threshold": 4})
    assert main(["run", "shop.yaml"]) == 0


@pytest.mark.parametrize(
    ("name", "separator", "kind"),
    [("u.data", "\t", "csv"), ("ratings.dat", "::", "csv"), ("r.csv", ";", "csv"), ("r.parquet", None, "parquet"),
     ("r.jsonl", None, "json")],
)  # fmt: skip
def test_formats_are_recognised(name: str, separator: str | None, kind: str) -> None:
    frame = ratings({})
    if separator is None:
        frame.to_parquet(name) if kind == "parquet" else frame.to_json(name, orient="records", lines=True)
    else:
        lines = [separator.join(map(str, row)) for row in frame.itertuples(index=False)]
        head = [separator.join(frame.columns)] if name.endswith(".csv") else []
        Path(name).write_text("\n".join([*head, *lines]))
    assert main(["new", "bakeoff", "--data", name, "--models", "popularity"]) == 0
    (dataset,) = written(f"{name.partition('.')[0]}.yaml")["datasets"]
    assert (dataset["type"], dataset.get("separator")) == (kind, separator if separator != "," else None)
    assert dataset.get("columns") == (None if kind != "csv" or name == "r.csv" else [*frame.columns])
    assert main(["run", f"{name.partition('.')[0]}.yaml", "--dry-run"]) == 0


def test_data_without_ratings_and_times_and_with_repeated_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    frame = ratings({}, times=False).drop(columns="rating")
    pd.concat([frame, frame[:7]]).to_csv("plays.csv", index=False)
    assert main(["new", "bakeoff", "--data", "plays.csv"]) == 0
    config = written("plays.yaml")
    assert config["datasets"][0]["duplicates"] == "last"
    assert "7 repeat a user and an item" in capsys.readouterr().err
    assert config["split"] == "holdout"
    assert "relevance" not in config
    assert main(["run", "plays.yaml", "--dry-run"]) == 0


@pytest.mark.parametrize(("high", "threshold"), [(5, 4), (10, 8), (100, 80), (7, None)])
def test_the_threshold_follows_the_scale(high: int, threshold: int | None) -> None:
    frame = ratings({})
    frame.loc[0, "rating"] = high
    frame.loc[1:, "rating"] = 1
    frame.to_csv("r.csv", index=False)
    assert main(["new", "bakeoff", "--data", "r.csv"]) == 0
    assert written("r.yaml").get("relevance") == (None if threshold is None else {"threshold": threshold})


def test_in_a_terminal_it_asks_three_questions_and_each_anew_after_a_wrong_answer(terminal, capsys) -> None:
    ratings({}).to_csv("r.csv", index=False)
    terminal("r.cvs", "r.csv", "y", "popularity, esae", "popularity, ease")
    assert main(["new", "bakeoff"]) == 0
    asked = capsys.readouterr().err
    assert "file not found: r.cvs; did you mean 'r.csv'?" in asked
    assert "unknown model 'esae'; did you mean 'ease'?" in asked
    assert "  timestamp  timestamp\nAre these right?" in asked
    assert written("r.yaml")["models"] == ["popularity", "ease"]


def test_a_wrong_guess_is_changed_by_answers(terminal, capsys) -> None:
    ratings({"user": "buyer", "item": "thing", "rating": "score"}).to_csv("r.csv", index=False)
    terminal("buyr", "buyer", "thing", "-", "timestamp", "popularity")
    assert main(["new", "bakeoff", "--data", "r.csv"]) == 0
    asked = capsys.readouterr().err
    assert "no user column 'buyr'; did you mean 'buyer'?" in asked
    (dataset,) = written("r.yaml")["datasets"]
    assert dataset.items() >= {"user": "buyer", "item": "thing", "timestamp": "timestamp"}.items()
    assert "rating" not in dataset


def test_the_end_of_the_input_interrupts(terminal) -> None:
    terminal("nothing.csv")
    assert main(["new", "bakeoff"]) == 130


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        (None, [], "file not found"),
        ("", [], "has no columns"),
        ("user\n1\n", [], "has a single column"),
        ("1,2,3\n4,5,6\n", [], "line 1 is '1,2,3', and not the names of the columns"),
        ("a,item\n1,2\n", [], "no column looks like that of the users: say --user COLUMN; columns: a, item"),
        ("user,item\n1,2\n", ["--rating", "itm"], "no rating column 'itm'; did you mean 'item'?"),
        ("user,item\n1,2\n", ["--user", "item"], "no column looks like that of the items"),
        ("user,item\n1,2\n", ["--user", "item", "--item", "item"], "cannot be both user and item"),
        (
            "user,item\n1,2\n",
            ["--models", "popularty"],
            "unknown model 'popularty'; did you mean 'popularity'?",
        ),
        ("user,item\n1,2\n", ["--models", "lists"], "lists: give a path or a run: leave it out"),
        ("user,item\n1,2\n", ["--models", " , "], "name a model or several"),
    ],
)
def test_without_a_terminal_wrong_input_is_refused(text, more, message, capsys) -> None:
    if text is not None:
        Path("r.csv").write_text(text)
    assert main(["new", "bakeoff", "--data", "r.csv", *more]) == 2
    assert message in capsys.readouterr().err
    assert not Path("r.yaml").exists()


def test_without_a_terminal_the_data_must_be_named(capsys) -> None:
    assert main(["new", "bakeoff"]) == 2
    assert "name the file with your interactions: --data FILE" in capsys.readouterr().err


def test_a_config_that_exists_stays(capsys) -> None:
    ratings({}).to_csv("r.csv", index=False)
    Path("r.yaml").write_text("mine")
    assert main(["new", "bakeoff", "--data", "r.csv"]) == 2
    assert "r.yaml exists: give another NAME" in capsys.readouterr().err
    assert Path("r.yaml").read_text() == "mine"
