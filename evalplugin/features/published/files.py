"""The files of published tables: found in the data home or fetched from their origin, and checked."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from evalplugin.base.errors import DataError
from evalplugin.base.fingerprint import file_digest
from evalplugin.base.libraries import np
from evalplugin.data import LoadContext
from evalplugin.data.download import download
from evalplugin.data.files import Report
from evalplugin.features.published.table import DataFile


def provide(files: Sequence[DataFile], converted: Path, context: LoadContext) -> Path:
    """Return the folder that has all files of a table; those that are missing are fetched.

    Tables that are made of some of them are written to the folder ``converted``.

    Raises:
        DataError: A file is another one than that of the table, or is missing and cannot be fetched.
    """
    folder = context.home / "published"
    for file in files:
        path = folder / file.file
        if not path.is_file():
            _fetch(file, path, context.report)
        elif (found := file_digest(path)) != file.sha256:
            raise DataError(
                f"{path}: its SHA-256 checksum is {found}, but that of the table's data is {file.sha256}: move the "
                f"file away, {_remedy(file, path)}"
            )
        if file.convert is not None:
            _CONVERTERS[file.convert](path, converted)
    return folder


def _fetch(file: DataFile, path: Path, report: Report) -> None:
    if file.url is None:
        raise DataError(f"file not found: {path}: {_remedy(file, path)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as scratch:
            fetched = Path(scratch, path.name)
            download(file.url, fetched, sha256=file.sha256, report=report)
            fetched.replace(path)
    except OSError as error:
        raise DataError(
            f"cannot write {path}: {error.strerror}; name another folder by --data-home"
        ) from None
    except DataError as error:
        raise DataError(
            f"{path} is missing, and could not be had: {error}. Put it there (from {file.url}), or name the folder "
            f"that has it by --data-home or EVALPLUGIN_DATA_HOME"
        ) from None


def _remedy(file: DataFile, path: Path) -> str:
    """Return what to do about a file that is missing or is another one."""
    if file.url is not None:
        return f"and it is fetched from {file.url}"
    return f"put the right one there ({file.origin}), or name the folder that has it by --data-home"


def _convert_cmn(path: Path, folder: Path) -> None:
    """Write train data, truth and candidates of a file of Collaborative Memory Networks as tables of user and item.

    It has the train pairs, and for each user one held-out item with 100 others.
    """
    # Pickles run code; this file is known by its checksum.
    with np.load(path, allow_pickle=True) as content:
        train, held_out = content["train_data"], content["test_data"].item()
    truth = [(user, int(item)) for user, (item, _) in held_out.items()]
    others = [(user, other) for user, (_, items) in held_out.items() for other in items]
    for name, pairs in (("train", train), ("test", truth), ("pool", truth + others)):
        np.savetxt(folder / f"{name}.csv", pairs, fmt="%d", delimiter=",", header="user,item", comments="")


_CONVERTERS = {"cmn": _convert_cmn}
