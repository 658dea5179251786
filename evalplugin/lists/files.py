"""Files of lists, truth and train data, with their format by name."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias, get_args

from evalplugin.base.errors import DataError, did_you_mean
from evalplugin.data.files import TableFiles, find_files
from evalplugin.data.formats import CsvFormat, FileFormat, ParquetFormat, TrecFormat
from evalplugin.data.reading import COMPRESSED, path_text

__all__ = ["Format", "open_files"]

Format: TypeAlias = Literal["auto", "csv", "parquet", "trec"]
_FORMATS: tuple[str, ...] = get_args(Format)


def open_files(
    path: str | Path,
    role: str,
    *,
    folder: Path = Path(),
    format: Format = "auto",
    text_ids: bool = False,
) -> TableFiles:
    """Return the files of a path, with their format.

    Args:
        path: A file, a pattern, or a folder of Parquet files.
        role: ``lists``, ``truth`` or ``train``.
        folder: Base of a relative path.
        format: ``auto``: by the name of the first file.
        text_ids: Ids in CSV files that look like integers stay text.

    Raises:
        DataError: The file does not exist, or its format is unknown.
    """
    if format not in _FORMATS:
        near = did_you_mean(format, _FORMATS)
        raise DataError(f"the format must be one of {', '.join(_FORMATS)}, not {format!r}{near}")
    text = str(path)
    found = find_files(folder, text, "*.parquet" if format in ("auto", "parquet") else None)
    first = found.files[0]
    name = first.name.casefold()
    if format == "auto":
        format = "parquet" if name.endswith(".parquet") else "csv"
        plain = Path(name).stem if Path(name).suffix in COMPRESSED else name
        if not plain.endswith((".parquet", ".csv", ".tsv")):
            raise DataError(
                f"{path_text(first)}: the format is not known by the name: name the file .csv, .tsv or .parquet, "
                f"or say which it is: {', '.join(_FORMATS[1:])}"
            )
    reader: FileFormat
    match format:
        case "parquet":
            reader = ParquetFormat()
        case "trec":
            reader = TrecFormat(run=role == "lists")
        case _:
            separator = "\t" if ".tsv" in name else ","
            reader = CsvFormat(separator, text=("user", "item") if text_ids else ())
    return TableFiles(text, found.files, reader, found.partitions)
