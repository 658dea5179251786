"""Files of lists, truth, train data and scores, by the names of their formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from evalplugin.base.errors import DataError, did_you_mean
from evalplugin.data.files import TableFiles, find_files
from evalplugin.data.formats import CsvFormat, ParquetFormat, TrecFormat, format_by_name
from evalplugin.data.pair_formats import PairFormat, pair_format
from evalplugin.data.reading import COMPRESSED, path_text
from evalplugin.files import Format
from evalplugin.lists.foreign import COLUMNS, own_reader

# Of truth and train data; auto: as the lists, or by name.
TruthFormat: TypeAlias = Literal[Format, PairFormat]
_FORMATS: tuple[str, ...] = get_args(Format)
_PAIR_FORMATS: tuple[str, ...] = get_args(PairFormat)
_PAIR_SUFFIXES: Mapping[str, PairFormat] = {".inter": "recbole", ".npz": "npz"}


def open_files(
    path: str | Path,
    role: str,
    *,
    folder: Path = Path(),
    format: TruthFormat = "auto",
    text_ids: bool = False,
) -> TableFiles:
    """Return the files of a path, with their format.

    Args:
        path: A file, a pattern, or a folder of Parquet files.
        role: ``lists``, ``truth``, ``train``, ``pool`` or ``scores``.
        folder: Base of a relative path.
        format: ``auto``: by the name of the first file. Lists and scores have columns that formats of pairs have not.
        text_ids: Ids in files of text that look like integers stay text.

    Raises:
        DataError: The file does not exist, or its format is unknown.
    """
    are_pairs = role not in ("lists", "scores")
    allowed = checked_formats(format, role)
    of_tool = format in COLUMNS and format not in _PAIR_FORMATS
    text = str(path)
    inside = "*.parquet" if format in ("auto", "parquet") or of_tool else None
    files, partitions = find_files(folder, text, inside)
    first = files[0]
    if of_tool:
        if (own := own_reader(format, role, first)) is not None:
            return TableFiles(text, files, own, partitions)
        format = "auto"
    name = first.name.casefold()
    if format == "auto" and are_pairs:
        format = _PAIR_SUFFIXES.get(Path(name).suffix, format)
    reader = format_by_name(first, CsvFormat())
    if format == "auto" and not isinstance(reader, CsvFormat):
        return TableFiles(text, files, reader, partitions)
    if format == "auto":
        format = "csv"
        plain = Path(name).stem if Path(name).suffix in COMPRESSED else name
        if not plain.endswith((".csv", ".tsv")):
            raise DataError(
                f"{path_text(first)}: the format is not known by the name: name the file .csv, .tsv, .jsonl or "
                f".parquet{_or_say(role, allowed[1:])}"
            )
    match format:
        case "parquet":
            reader = ParquetFormat()
        case "trec":
            reader = TrecFormat(run=role == "lists")
        case "adjacency" | "recbole" | "triples" | "npz":
            reader = pair_format(format, text_ids=text_ids)
        case _:
            separator = "\t" if ".tsv" in name else ","
            reader = CsvFormat(separator, text=("user", "item") if text_ids else ())
    return TableFiles(text, files, reader, partitions)


def checked_formats(format: str, role: str) -> tuple[str, ...]:
    """Return the formats of a role, after a check that ``format`` is one of them.

    Raises:
        DataError: It is not; the message has the nearest name.
    """
    allowed = _FORMATS if role in ("lists", "scores") else _FORMATS + _PAIR_FORMATS
    if format not in allowed:
        near = did_you_mean(str(format), allowed, noun=None)
        raise DataError(f"the format of the {role} must be one of {', '.join(allowed)}, not {format!r}{near}")
    return allowed


def _or_say(role: str, formats: Sequence[str]) -> str:
    """Return how the format of a role is named, if it can be."""
    if role == "scores":
        return ""
    option = "--input-format" if role == "lists" else "--truth-format"
    return f", or say which it is: {', '.join(formats)} ({option})"
