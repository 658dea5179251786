"""Files that cannot be read as their name says: one message with the file and what to do, from every reader."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import zipfile
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest
from samples import refusal

import evalplugin
from evalplugin.data import Csv, LoadContext, Parquet
from evalplugin.data.datasets.tables import ItemTable
from evalplugin.data.formats import CsvFormat
from evalplugin.data.reading import reason_of
from evalplugin.segments.attribute import Attribute

CSV = b"user,item,rank\n" + b"".join(b"%d,%d,1\n" % (n, n) for n in range(500))
RUN = b"u1 Q0 d1 1 0.5 t\nu2 Q0 d2 1 0.5 t\n"
RUN_LINE = "a line of a TREC run has 6 values (user q0 item trec_rank score tag)"
QRELS = b"u1 0 d1 1\nu2 0 d3 1\n"


def _zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.csv", CSV)
    return buffer.getvalue()


def _parquet() -> bytes:
    buffer = io.BytesIO()
    pq.write_table(arrow_csv.read_csv(io.BytesIO(CSV)), buffer)
    return buffer.getvalue()


def _with_a_changed_id() -> bytes:
    """Return a Parquet file with checksums, of which one id is another: every value of it can be read."""
    buffer = io.BytesIO()
    table = arrow_csv.read_csv(io.BytesIO(CSV))
    pq.write_table(table, buffer, compression="none", use_dictionary=False, write_page_checksum=True)
    before, after = (np.int64(user).tobytes() for user in (250, 122))
    return buffer.getvalue().replace(before, after, 1)


PARQUET = _parquet()
# Name, content, and words of the message.
TEXT_FILES = {
    "empty.csv": (b"", "is empty"),
    "blank.csv": (b"\n\n", "is empty"),
    "mark.csv": (b"\xef\xbb\xbf", "is empty"),
    "cut.csv.gz": (
        gzip.compress(CSV, mtime=0)[:-9],
        "the compressed data is cut short or damaged: copy or download",
    ),
    "damaged.csv.gz": (
        gzip.compress(CSV, mtime=0)[:40] + b"?" * 60,
        "the compressed data is cut short or damaged",
    ),
    "plain.csv.gz": (CSV, "is not compressed by gzip as its name says"),
    "cut.csv.bz2": (bz2.compress(CSV)[:-9], "the compressed data is cut short or damaged"),
    "gzip.csv": (gzip.compress(CSV, mtime=0), "is not text but gzip; name it .gz"),
    "double.csv.gz": (
        gzip.compress(gzip.compress(CSV, mtime=0), mtime=0),
        "is not text but gzip inside of gzip",
    ),
    "xz.csv.xz": (lzma.compress(CSV), "is not text but xz; decompress it first (only .gz and .bz2"),
    "zst.csv.zst": (b"\x28\xb5\x2f\xfd" + CSV, "is not text but zstd; decompress it first"),
    "zip.csv": (_zipped(), "is not text but zip; decompress it first"),
    "table.csv": (PARQUET, "is not text but Parquet"),
    "utf16.csv": (CSV.decode().encode("utf-16"), "is UTF-16 (or no text) and not UTF-8; convert it: iconv"),
    "utf16le.csv": (CSV.decode().encode("utf-16-le"), "is UTF-16"),
    "latin.csv": (b"user,item,rank\n1,caf\xe9,1\n", "is not UTF-8 text (byte 20); convert it"),
    "late.csv": (CSV * 20 + b"1,caf\xe9,1\n", "is not UTF-8 text"),
    "head.csv": (b'user,"item,rank\n1,2,1\n', "line 1: a quote is opened that is not closed"),
    "quote.csv": (b'user,item,rank\n1,"2,1\n3,4,1\n', "line 2: a quote is opened that is not closed"),
    "ragged.csv": (b"user,item,rank\n1,2,1\n3,4\n", "Row #3: Expected 3 columns, got 2"),
}
PARQUET_FILES = {
    "empty.parquet": (b"", "is empty (0 bytes)"),
    "text.parquet": (CSV, "it is not Parquet but text"),
    "gzip.parquet": (gzip.compress(CSV, mtime=0), "it is not Parquet but gzip"),
    "cut.parquet": (PARQUET[:-20], "the end of the Parquet file is missing; copy it again"),
    "changed.parquet": (
        _with_a_changed_id(),
        "a page is damaged: its checksum is another; copy the file again",
    ),
    "garbage.parquet": (b"PAR1" + b"?" * 100 + b"PAR1", "cannot be read: "),
}
PATHS = {
    "missing.csv": "file not found",
    "whole.csv/x.csv": "cannot be read: Not a directory",
    "loop.csv": "cannot be read: Too many levels of symbolic links",
    "dangling.csv": "is a link to nowhere, which does not exist",
    "pipe.csv": "is neither a file nor a folder",
    "x" * 5000 + ".csv": ": cannot be read: File name too long",
    "a\0b.csv": "cannot be read: embedded null",
    "~nobody-of-this-name/a.csv": "ome",
    "*.nothing": "no file matches",
}


@pytest.fixture(autouse=True)
def files() -> None:
    Path("whole.csv").write_bytes(CSV)
    Path("whole.parquet").write_bytes(PARQUET)


def _score(lists: str = "whole.csv", truth: str = "whole.csv", train: str | None = None) -> object:
    return evalplugin.score(lists, truth, ["rr"], train=train)


READERS: dict[str, Callable[[str], object]] = {
    "dataset": lambda name: (Parquet if name.endswith(".parquet") else Csv)(name).load(LoadContext()),
    "lists": lambda name: _score(lists=name),
    "truth": lambda name: _score(truth=name),
    "train": lambda name: _score(train=name),
    "memory": lambda name: evalplugin.score(name, "whole.parquet", ["rr"], memory="1KB"),
    "segment": lambda name: (
        Attribute(column="rank", file=name)
        ._source(LoadContext())
        .read({"user": "user", "column": "rank", "item": "item"})
    ),
}


@pytest.mark.parametrize(
    ("name", "reader"),
    [
        *product(TEXT_FILES, ["dataset", "lists", "truth", "train", "segment"]),
        *product(PARQUET_FILES, READERS),
    ],
)
def test_bad_files_are_refused_by_every_reader(name: str, reader: str) -> None:
    content, words = {**TEXT_FILES, **PARQUET_FILES}[name]
    Path(name).write_bytes(content)
    message = refusal(lambda: READERS[reader](name))
    assert name in message
    assert words in message


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", PATHS)
def test_bad_paths_are_refused_by_every_reader(name: str, reader: str) -> None:
    os.symlink("loop.csv", "loop.csv")
    os.symlink("nowhere", "dangling.csv")
    os.mkfifo("pipe.csv")
    assert PATHS[name] in refusal(lambda: READERS[reader](name))


def test_folders_are_no_files_of_csv() -> None:
    Path("a.csv").mkdir()
    assert "name its files by a pattern such as a.csv/*.csv" in refusal(lambda: READERS["dataset"]("a.csv"))
    assert "no *.parquet file in the folder" in refusal(lambda: READERS["lists"]("a.csv"))


def test_permission_denied_is_said() -> None:
    assert reason_of(PermissionError(13, "Permission denied")) == "no permission to read it"


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (RUN.decode().encode("utf-16"), "is UTF-16"),
        (b"u1 Q0 caf\xe9 1 0.5 t\n", "is not UTF-8 text (byte 9)"),
        (gzip.compress(RUN, mtime=0), "is not text but gzip; name it .gz"),
        (b"u1 Q0 d1 1 0.5 t\nu1 Q0 d2 2 0.4 t t\n", f"line 2: {RUN_LINE}; this one has more"),
        (b"u1 Q0 d2 2 0.4 t t t\nu1 Q0 d1 1 0.5 t\n", f"line 1: {RUN_LINE}; this one has more"),
        (b"u1 Q0 d1 1 0.5 t\nu1 Q0 d2 2 0.4 t t t\n", "line 2, saw 8"),
        (b"u1 Q0 d1 1 0.5 t\n\nu1 Q0 d2 2\n", f"line 3: {RUN_LINE}; this one has 4"),
        (b"u1 Q0 d1 1 0.5 t\nu1 Q0 d2 2 0.4\n", f"line 2: {RUN_LINE}; this one has 5"),
        (b"u1 Q0 d1 1 0.5\nu1 Q0 d2 2 0.4\n", f"line 1: {RUN_LINE}; this one has 5"),
        (b"\n\nu1 Q0 d1 1 x t\n", "line 3: the score must be a number, not 'x'"),
        (b"", "there are no rows"),
        (b"\n\n", "there are no rows"),
    ],
)
def test_bad_trec_files_are_refused(run: bytes, words: str) -> None:
    Path("a.run").write_bytes(run)
    Path("a.qrels").write_bytes(QRELS)
    message = refusal(lambda: evalplugin.score("a.run", "a.qrels", ["rr"], format="trec"))
    assert message.startswith("a.run: ")
    assert words in message


@pytest.mark.parametrize(
    ("qrels", "words"),
    [
        (
            b"u1 0 d1 1\nu2 0 d3\n",
            "line 2: a line of a TREC qrels file has 4 values (user iteration item rating)",
        ),
        (b"u1 0 d1 1 2\n", "line 1: a line of a TREC qrels file has 4 values"),
        (b"u1 0 d1 1\nu2 0 d3 one\n", "line 2: the rating must be a number, not 'one'"),
    ],
)
def test_bad_qrels_are_refused(qrels: bytes, words: str) -> None:
    Path("a.run").write_bytes(RUN)
    Path("a.qrels").write_bytes(qrels)
    message = refusal(lambda: evalplugin.score("a.run", "a.qrels", ["rr"], format="trec"))
    assert message.startswith(f"a.qrels: {words}")


def test_blank_lines_and_spaces_around_trec_lines_are_ignored() -> None:
    Path("a.run").write_bytes(b"\n " + RUN.replace(b"\n", b" \t\r\n\r\n"))
    Path("a.qrels").write_bytes(b"  \n" + QRELS + b"\n\n")
    scores = evalplugin.score("a.run", "a.qrels", ["rr"], format="trec")
    assert scores.per_user["rr"].to_dict() == {"u1": 1.0, "u2": 0.0}


@pytest.mark.parametrize("mark", ["run", "qrels", "both"])
def test_trec_byte_order_mark_is_no_part_of_the_first_id(mark: str) -> None:
    bom = b"\xef\xbb\xbf"
    Path("a.run").write_bytes(bom * (mark != "qrels") + RUN)
    Path("a.qrels").write_bytes(bom * (mark != "run") + QRELS)
    scores = evalplugin.score("a.run", "a.qrels", ["rr"], format="trec")
    assert scores.per_user["rr"].to_dict() == {"u1": 1.0, "u2": 0.0}


@pytest.mark.parametrize(
    ("user", "others", "kept"),
    [
        ("01", "1", ["01", "1"]),
        ("+1", "1", ["+1", "1"]),
        ("0x1", "1", ["0x1", "1"]),
        ("0xFFFFF", "1048575", ["0xFFFFF", "1048575"]),  # as many characters as the number that it means
        ("007", "0xFFFFFFFFFFFFFFF", ["007", "0xFFFFFFFFFFFFFFF"]),  # two more characters, and two less
        ("-10", "-9223372036854775808", [-(2**63), -10]),
        ("-0", "0", ["-0", "0"]),
        ("99999999999999999999", "99999999999999999998", ["99999999999999999998", "99999999999999999999"]),
        ("1", "-2", [-2, 1]),
        (" 1", "2 ", [1, 2]),
        ('"1"', "2", [1, 2]),
        ("9223372036854775807", "0", [0, 2**63 - 1]),
    ],
)
def test_csv_ids_that_integers_cannot_hold_stay_text(user: str, others: str, kept: list[object]) -> None:
    Path("a.csv").write_text(f"user,item,rank\n{user},1,1\n{others},1,1\n")
    assert Csv("a.csv").load(LoadContext()).users.tolist() == kept
    as_text = Csv("a.csv", ids="text").load(LoadContext())
    assert set(as_text.users) == {user.strip('"'), others}
    assert as_text.items.tolist() == ["1"]
    assert evalplugin.score("a.csv", "a.csv", ["rr"]).per_user.index.tolist() == kept


@pytest.mark.parametrize("last", ["-12", "012"])
def test_csv_ids_are_integers_or_text_throughout_a_file_that_is_read_in_pieces(last: str) -> None:
    ids = [str(n) for n in range(-5, 250_000)]
    Path("a.csv").write_text("user,item,rank\n" + "".join(f"{n},7,1\n" for n in [*ids, last]))
    assert Path("a.csv").stat().st_size > 2**21
    users = CsvFormat().read(Path("a.csv"), {"user": "user"}).column("user")
    assert users.to_pylist() == ([*map(int, ids), -12] if last == "-12" else [*ids, last])


def test_csv_files_that_disagree_on_ids_are_refused_with_what_to_do() -> None:
    Path("a.csv").write_text("user,item,rank\n01,1,1\n1,1,1\n")
    Path("b.csv").write_text("user,item,rank\n1,1,1\n2,1,1\n")
    message = refusal(lambda: _score("a.csv", "b.csv"))
    assert message.startswith(
        "user ids are text in the lists (such as '01'), but integers in the truth (such as 1): they can never be equal"
    )
    assert "read those of CSV files as text (ids: text, or --ids text)" in message
    message = refusal(lambda: Csv("[ab].csv").load(LoadContext()))
    assert (
        "b.csv: column 'user' is int64, but string in a.csv: all files need the same kind of ids" in message
    )
    assert "reading ids as text makes them the same" in message


@pytest.mark.parametrize(("rows", "at"), [(3, 1), (200_000, 500)])
def test_quote_that_is_never_closed_loses_no_rows(rows: int, at: int) -> None:
    lines = [f"{n},{n},x" for n in range(rows)]
    lines[at] = lines[at].replace("x", '"x')
    Path("a.csv").write_text("user,item,title\n" + "\n".join(lines) + "\n")
    message = refusal(lambda: Csv("a.csv").load(LoadContext()))
    assert f"a.csv: line {at + 2}: a quote is opened that is not closed" in message


def test_line_breaks_in_quotes_empty_lines_and_inner_quotes_are_read() -> None:
    Path("a.csv").write_text('user,item,title\n1,2,"a\nb"\n\n3,4,5" disc\n5,6,"say ""x"""\n\n')
    assert Csv("a.csv").load(LoadContext()).users.tolist() == [1, 3, 5]
    Path("b.csv").write_bytes(b"user,item\r1,2\r3,4\r")
    assert len(Csv("b.csv").load(LoadContext())) == 2


@pytest.mark.parametrize("rows", [3, 60_000])
def test_csv_text_of_several_lines_is_read_by_every_reader(rows: int) -> None:
    text = 'a\nb, ""x""\n\nc\r\nd'
    lines = [f'{n % 5},{n},{n % 7},"{text}"' for n in range(rows)]
    Path("a.csv").write_text("user,item,score,text\n" + "\n".join(lines) + "\n", newline="")
    assert rows < 10 or Path("a.csv").stat().st_size > 2**20  # more than a block
    data = Csv("a.csv", items=ItemTable("a.csv", columns=["text"])).load(LoadContext())
    assert len(data) == rows
    assert set(data.item_attributes["text"]) == {text.replace('""', '"')}
    Path("models.csv").write_text(
        "item,model,score,text\n" + "".join(f'{n},{m},{n % 3},"{text}"\n' for n in range(rows) for m in "ab")
    )
    compared = evalplugin.compare_scores("models.csv", unit="item", model="model").comparisons[0]
    assert compared.pairs[0].paired.users == rows
    scores = evalplugin.score("a.csv", "a.csv", ["recall@5"])
    assert len(scores.per_user) == min(rows, 5)


def test_csv_text_longer_than_pythons_limit_is_read() -> None:
    Path("a.csv").write_text('user,item,text\n1,2,"' + "line\n" * 60_000 + '"\n3,4,x\n')
    assert len(Csv("a.csv").load(LoadContext())) == 2


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (
            "sep=;\nuser;item\n1;2\n",
            {},
            "line 1 is 'sep=;', and not the names of the columns: delete the lines",
        ),
        ("sep=;\nuser;item\n1;2\n", {"separator": ";"}, "line 1 is 'sep=', and not the names of the columns"),
        ("# of May\nuser,item\n1,2\n", {}, "line 1 is '# of May', and not the names of the columns: delete"),
        ("# of May\n1,2\n", {"columns": ["user", "item"]}, "is the separator another one, or this line a"),
        ("user::item\n1::2\n", {}, "its header is one column, 'user::item': is '::' the separator?"),
        ("1::2\n", {"columns": ["user", "item"]}, "got 1: 1::2; is the separator another one"),
    ],
)
def test_lines_above_the_header_and_other_separators_are_named(content, options, words):
    Path("a.csv").write_text(content)
    assert words in refusal(lambda: Csv("a.csv", **options).load(LoadContext()))


def test_header_that_begins_with_a_number_sign_is_read() -> None:
    Path("a.csv").write_text("# user,item\n1,2\n")
    assert len(Csv("a.csv", user="# user").load(LoadContext())) == 1


def test_separator_of_two_characters_is_read_without_quotes() -> None:
    Path("ratings.dat").write_text("1::10::5::978300760\n1::20::3::978300761\n2::10::4::978300762\n")
    Path("movies.dat").write_text('movie::title::genres\n10::"Cats": a film::Drama\n20::It\'s::Comedy|War\n')
    columns = ["user", "item", "rating", "time"]
    items = ItemTable("movies.dat", separator="::", item="movie", title="title")
    data = Csv(
        "ratings.dat", separator="::", columns=columns, rating="rating", timestamp="time", items=items
    ).load(LoadContext())
    assert data.rating.tolist() == [5, 3, 4]
    assert data.timestamp.tolist() == [978300760, 978300761, 978300762]
    assert data.titles.tolist() == ['"Cats": a film', "It's"]
    assert data.item_attributes["genres"].tolist() == ["Drama", "Comedy|War"]
    Path("movies.dat").write_bytes("movie::title::genres\n10::Café::Drama\n".encode("latin-1"))
    loader = Csv("ratings.dat", separator="::", columns=columns, items=items)
    message = refusal(loader.load, LoadContext())
    assert "movies.dat: is not UTF-8 text" in message
    assert "iconv -f LATIN1 -t UTF-8" in message


def test_one_column_for_two_roles_is_refused_in_memory_and_out_of_core() -> None:
    for memory in (None, "1KB"):
        whole = partial(evalplugin.score, "whole.parquet", "whole.parquet", ["rr"], columns={"item": "user"})
        said = refusal(partial(whole, memory=memory))
        assert "column 'user' cannot be both user and item: name two columns" in said
    twice = pa.Table.from_arrays(
        [pa.array([1]), pa.array([1]), pa.array([1])], names=["user", "user", "item"]
    )
    pq.write_table(twice, "twice.parquet")
    for memory in (None, "1KB"):
        read = lambda: evalplugin.score("whole.parquet", "twice.parquet", ["rr"], memory=memory)  # noqa: B023, E731
        assert "twice.parquet: 2 columns are called 'user' (user)" in refusal(read)
    message = refusal(Csv("whole.csv", item="user").load, LoadContext())
    assert "cannot be both user and item" in message


def test_text_that_is_not_utf8_is_refused_in_memory_and_out_of_core() -> None:
    ends = pa.py_buffer(np.array([0, 1, 2], dtype=np.int32))
    bad = pa.Array.from_buffers(pa.string(), 2, [None, ends, pa.py_buffer(b"\xff\xfe")])
    pq.write_table(pa.table({"user": bad, "item": [1, 2], "rank": [1, 1]}), "bad.parquet")
    for memory in (None, "1KB"):
        read = lambda: evalplugin.score("bad.parquet", "bad.parquet", ["rr"], memory=memory)  # noqa: B023, E731
        assert "text ids must be valid UTF-8" in refusal(read)
    assert "text ids must be valid UTF-8" in refusal(lambda: Parquet("bad.parquet").load(LoadContext()))
