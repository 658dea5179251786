from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from samples import small_config, write_config

from evalplugin.base.errors import StoreError
from evalplugin.cli import main
from evalplugin.execution.store import private_folder

# A model that fails if another user could replace a file that its process has unpickled.
LOOKING = """
import stat
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import evalplugin


@evalplugin.model("looking")
@dataclass
class Looking:
    def fit(self, train, rng):
        self.n_items = train.n_items
        files = {line.split()[-1] for line in open("/proc/self/maps") if "/shared-" in line}
        assert files, "no arguments are mapped into memory"
        for folder in {folder for file in files for folder in Path(file).parents}:
            mode = folder.stat().st_mode
            assert mode & stat.S_ISVTX or not mode & 0o022, f"others can write to {folder}"

    def scores(self, users):
        return np.zeros((len(users), self.n_items))
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder below which private folders are made."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / f"evalplugin-{os.getuid()}"


@pytest.mark.usefixtures("store")
def test_worker_of_a_shared_store_reads_nothing_that_others_can_replace(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2770)
    (tmp_path / "looking.py").write_text(LOOKING)
    file = tmp_path / "config.yaml"
    config = small_config(
        plugins=["looking.py"], models=["random", "looking"], workers=2, store={"path": str(shared)}
    )
    write_config(config, file)
    assert main(["run", str(file)]) == 0


def test_private_folder_is_empty_writable_by_its_owner_alone_and_removed(temporary: Path) -> None:
    with private_folder() as folder:
        assert list(folder.iterdir()) == []
        assert folder.is_relative_to(temporary)
        for inner in (temporary, folder.parent, folder):
            assert stat.S_IMODE(inner.stat().st_mode) == 0o700
        (folder / "file").write_text("x")
    assert [path.name for path in temporary.iterdir()] == ["lock"]


def test_private_folder_of_a_killed_process_is_removed_by_the_next(temporary: Path) -> None:
    if (child := os.fork()) == 0:
        with private_folder() as folder:
            (folder / "left").write_text("x")
            os._exit(0)
    os.waitpid(child, 0)
    assert list(temporary.rglob("left")) != []
    with private_folder() as mine:
        assert list(temporary.rglob("left")) == []
        with private_folder():
            assert mine.exists()


@pytest.mark.parametrize("kind", ["writable by others", "a link"])
def test_private_folder_refuses_a_root_that_others_could_replace(temporary: Path, kind: str) -> None:
    if kind == "a link":
        (temporary.parent / "elsewhere").mkdir()
        temporary.symlink_to("elsewhere")
    else:
        temporary.mkdir()
        temporary.chmod(0o777)
    with pytest.raises(StoreError, match=rf"{temporary} is not yours alone.*TMPDIR"), private_folder():
        pass


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_private_folder_refuses_to_be_where_others_could_rename_it(temporary: Path, mode: int) -> None:
    place = temporary.parent
    place.chmod(mode)
    with (
        pytest.raises(StoreError, match=rf"others can write to {place}.*chmod \+t.*TMPDIR"),
        private_folder(),
    ):
        pass
    place.chmod(0o1000 | mode)  # where each may rename what is his own alone, as in /tmp
    with private_folder():
        pass


def test_private_folder_names_tmpdir_where_it_cannot_be_made(temporary: Path) -> None:
    temporary.write_text("")
    with pytest.raises(StoreError, match=r"cannot write to .*TMPDIR"), private_folder():
        pass


def test_an_error_of_the_work_in_a_private_folder_stays_what_it_is(temporary: Path) -> None:
    with pytest.raises(PermissionError), private_folder():
        raise PermissionError("of the work")
