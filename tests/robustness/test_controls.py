"""Control characters from outside reach no terminal raw; exports hold no formula and no markup from outside."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from samples import small_config, write_config

from evalplugin.base.text import escape_controls, escape_formula
from evalplugin.cli import main
from evalplugin.cli.show.console import Terminal, rich_table
from evalplugin.metrics.scores import PerUserScores, Units
from evalplugin.report.documents import compare_latex, compare_markdown
from evalplugin.report.frames import compare_frame, frame_csv, write_frame
from evalplugin.report.table import Table, text_rows, words

HOSTILE = "a\x1b[31mb\x07\x9b2Jc\u202ed\re\x00"
SHOWN = r"a\u001b[31mb\u0007\u009b2Jc\u202ed\u000de\u0000"


def test_control_characters_are_escaped_and_other_text_is_not() -> None:
    assert escape_controls(HOSTILE) == SHOWN
    for text in ("plain\ttext\n", "Ärger – 日本語 🎬", "e\u0301 \u200d"):
        assert escape_controls(text) == text
    assert escape_controls("".join(map(chr, range(0x20)))).count("\\u") == 30  # all but tab and line feed


@pytest.mark.parametrize("text", ["=1+1", "+A1", "-A1", "@SUM(A1)", "\t=1", "\r=1", "-1+1", "--1", "=-1"])
def test_formula_gets_an_apostrophe(text: str) -> None:
    assert escape_formula(text) == f"'{text}"


@pytest.mark.parametrize("text", ["-0.5", "+3", "-1e-05", "+", "-", "", "a=b", "0", ".5", "-.5"])
def test_number_or_sign_is_no_formula(text: str) -> None:
    assert escape_formula(text) == text


def test_console_shows_controls_and_no_emoji() -> None:
    out = io.StringIO()
    console = Terminal(file=out, width=200, force_terminal=False)
    console.print(rich_table(Table("", words("model"), text_rows([(f"{HOSTILE} :warning:",)]))))
    console.print(HOSTILE)
    assert out.getvalue().count(SHOWN) == 2
    assert ":warning:" in out.getvalue()
    assert "\x1b" not in out.getvalue()


PLUGIN = '''
from dataclasses import dataclass
import evalplugin

@evalplugin.model("evil")
@dataclass
class Evil:
    """Summary with \\x1b[31mred\\x9b2J\\u202e."""
    how: str = "x\\x1b[0m"

    def fit(self, train, rng):
        raise RuntimeError("\\x1b]0;title\\x07 \\u202e\\x9b\\r")

    def scores(self, users): ...
'''


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "models", "--plugin", "evil.py"],
        ["describe", "model", "evil", "--plugin", "evil.py"],
        ["describe", "model", HOSTILE.replace("\x00", "")],
        ["validate", "evil.yaml"],
        ["validate", HOSTILE.replace("\x00", "") + ".yaml"],
        ["validate", "evil.yaml", "--set", HOSTILE.replace("\x00", "") + "=1"],
        ["run", "evil.yaml", "--dry-run"],
        [HOSTILE],
        ["list", HOSTILE],
        ["compare", "--tracking-uri", "sqlite:///" + HOSTILE],
        ["history", "--experiment", HOSTILE, "--tracking-uri", "sqlite:///none.db"],
    ],
)
def test_no_command_prints_controls_raw(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    Path("evil.py").write_text(PLUGIN)
    config = {
        "experiment": HOSTILE.replace("\x00", ""),
        "plugins": ["evil.py"],
        "datasets": [{"name": HOSTILE, "type": "blobs"}],
        "models": [{"name": HOSTILE, "type": "random"}, {"name": "b\x1b[1m", "type": "evil"}],
        "split": {"type": "holdout", "fraction": 0.3},
        "compare": {},
    }
    write_config(small_config(**config), "evil.yaml")
    main(arguments)
    out, err = capfd.readouterr()
    assert not set("\x1b\x07\x9b\u202e\r\x00") & set(out + err)
    assert out + err


def test_exports_hold_no_formula_and_no_markup(make: ModuleType) -> None:
    names = ("=cmd|' /C calc'!A0", "[x]", "*y", "-0.5", "random")
    models = [make.model_result(name, 0.1 + i / 10) for i, name in enumerate(names)]
    found = make.comparisons(make.Results(make.bakeoff(names), tuple(models)))
    rows = list(csv.DictReader(io.StringIO(frame_csv(compare_frame(found, ["ndcg@10"])))))
    assert {row["model"] for row in rows} == {f"'{names[0]}", *names[1:]}
    assert {row["mark"] for row in rows} <= {"", "+", "-"}
    assert any(float(row["difference"] or 0) < 0 or row["difference"].startswith("0") for row in rows)
    latex = compare_latex(found)
    assert "{[}x{]}" in latex
    assert "{*}y" in latex
    assert r"\[x\]" in compare_markdown(found)


def test_per_user_csv_guards_ids_of_text(tmp_path: Path) -> None:
    def scores(users: object) -> PerUserScores:
        return PerUserScores(Units(np.asarray(users)), np.array([[-0.5], [1.0]]), ("ndcg@10",))

    write_frame(
        scores(np.array(["=1+1", "-7"], dtype=object)).to_frame().reset_index(), tmp_path / "text.csv"
    )
    assert (tmp_path / "text.csv").read_text() == "user,ndcg@10\n'=1+1,-0.5\n-7,1.0\n"
    write_frame(scores([-3, 4]).to_frame().reset_index(), tmp_path / "numbers.csv")
    assert pd.read_csv(tmp_path / "numbers.csv")["user"].tolist() == [-3, 4]
