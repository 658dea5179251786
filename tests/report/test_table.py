"""The value that every renderer shows."""

from __future__ import annotations

from evalplugin.report.table import Column, Table, TableCell, numbers, text_rows, with_shared_footnotes, words


def test_rows_are_made_of_fields() -> None:
    table = Table.of(
        "lengths",
        ["ab", "c"],
        [(words("text")[0], TableCell), (Column("n"), lambda t: TableCell(str(len(t))))],
    )
    assert table.heads == ("text", "n")
    assert table.rows == text_rows([("ab", "2"), ("c", "1")])
    assert table.naming == 0


def test_parts_repeat_names_and_keep_a_group_together() -> None:
    columns = (
        *words("", "model"),
        *numbers("a", "b"),
        Column("fit", group="costs"),
        Column("memory", group="costs"),
    )
    table = Table("all", columns, text_rows([("1", "knn", "0.1", "0.2", "1 s", "9 MB")]))
    widths = [4, 6, 10, 10, 10, 10]
    assert [part.heads for part in table.parts(widths, 30)] == [
        ("", "model", "a", "b"),
        ("", "model", "fit", "memory"),
    ]
    assert [part.heads[2:] for part in table.parts(widths, 20)] == [("a",), ("b",), ("fit", "memory")]
    assert next(iter(table.parts(widths, 30))).rows == text_rows([("1", "knn", "0.1", "0.2")])


def test_a_footnote_that_tables_share_stands_below_the_last_one() -> None:
    tables = [Table(str(i), (), (), footnotes=("marks", f"users {i}")) for i in range(2)]
    first, second = with_shared_footnotes(tables)
    assert (first.footnotes, second.footnotes) == (("users 0",), ("marks", "users 1"))
