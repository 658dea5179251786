"""Damaged tables of every format: scored, or refused with exit code 2 and the name of the file."""

from __future__ import annotations

import contextlib
import gzip
import io
import tempfile
import zipfile
from pathlib import Path

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from evalplugin.cli import main

FRAME = pd.DataFrame(
    {
        "user": [1, 1, 2, 2, 3],
        "item": [10, 11, 10, 12, 13],
        "rank": [1, 2, 1, 2, 1],
        "rating": [5.0, 3, 4, 2, 5],
    }
)


def _parquet() -> bytes:
    out = io.BytesIO()
    FRAME.to_parquet(out)
    return out.getvalue()


def _zip(content: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("lists.csv"), content)
    return out.getvalue()


CSV = FRAME.to_csv(index=False).encode()
FILES = {
    "x.csv": CSV,
    "x.csv.gz": gzip.compress(CSV, mtime=0),
    "x.csv.zip": _zip(CSV),
    "x.parquet": _parquet(),
    "x.trec": b"".join(
        b"%d Q0 %d %d %d t\n" % (u, i, r, 10 - r) for u, i, r, _ in FRAME.itertuples(index=False)
    ),
}
PIECES = [b"\0", b"\xff\xfe", b'"', b",", b"\n", b"\r", b"\x1b", b"9" * 400, b"nan", b"-", b"=1"]


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    name = draw(st.sampled_from(sorted(FILES)))
    content = bytearray(FILES[name])
    for _ in range(draw(st.integers(1, 4))):
        where = draw(st.integers(0, max(0, len(content) - 1)))
        how = draw(st.sampled_from(["byte", "cut", "insert", "delete", "double"]))
        piece = draw(st.sampled_from(PIECES))
        if how == "byte" and content:
            content[where] = draw(st.integers(0, 255))
        elif how == "cut":
            del content[where:]
        elif how == "insert":
            content[where:where] = piece
        elif how == "delete":
            del content[where : where + draw(st.integers(1, 20))]
        else:
            content += content[where:]
    return name, bytes(content)


@settings(max_examples=settings.default.max_examples // 4)
@given(damaged())
def test_damaged_lists_are_scored_or_refused(case: tuple[str, bytes]) -> None:
    name, content = case
    out, err = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        lists, truth = Path(folder) / name, Path(folder) / "truth.csv"
        lists.write_bytes(content)
        truth.write_bytes(CSV)
        if name.endswith("trec"):
            truth = Path(folder) / "truth.qrels"
            truth.write_text("1 0 10 1\n2 0 12 1\n3 0 10 1\n")
        arguments = ["score", "--lists", str(lists), "--truth", str(truth), "-m", "ndcg@5"]
        arguments += ["--input-format", "trec"] if name.endswith("trec") else []
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(arguments)
    assert code in (0, 2), err.getvalue()
    assert "Traceback" not in err.getvalue()
    assert code == 0 or err.getvalue()
