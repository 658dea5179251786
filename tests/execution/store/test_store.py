from __future__ import annotations

import errno
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalplugin.base.errors import DataError, StoreError
from evalplugin.base.units import bytes_of, seconds_of, size_text
from evalplugin.cli import main
from evalplugin.execution.isolation import TaskFailure
from evalplugin.execution.store import Store, store_path
from evalplugin.execution.store import folder as store_folder
from evalplugin.execution.store.entry import is_intact, key_of
from evalplugin.execution.store.journal import PENDING_SECONDS, Header, Journal, keys_in_use, unfinished
from evalplugin.execution.store.steps import StepCache

DEPENDS = {"step": "lists", "n": 10}


def write(store: Store, content: bytes = b"some content", *, replace: bool = False, **depends: object) -> str:
    asked = {**DEPENDS, **depends}
    files = {"a.bin": lambda f: f.write(content), "b.json": lambda f: f.write(b"[1, 2]")}
    store.write("lists of a test", asked, files, replace=replace)
    return key_of(asked)


def use_at(store: Store, key: str, seconds_ago: float) -> None:
    then = time.time() - seconds_ago
    os.utime(store.folder_of(key) / "manifest.json", (then, then))


def journal(store: Store, name: str = "one", *keys: str) -> Journal:
    started = Journal.create(store.journals, Header(name, {"config": "x"}, {}, time.time(), False))
    for key in keys:
        started.record_use(key)
    return started


def test_written_entry_is_found_with_its_info(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    key = write(store)
    folder = Store(tmp_path / "s").find(key)
    assert (folder / "a.bin").read_bytes() == b"some content"
    (facts,) = store.entries()
    assert (facts.key, facts.step) == (key, "lists")
    assert facts.about == "lists of a test"
    assert json.loads((store.folder_of(facts.key) / "manifest.json").read_bytes())["depends_on"] == DEPENDS
    assert facts.size == len(b"some content") + len(b"[1, 2]")
    assert time.time() - facts.used < 60
    assert (tmp_path / "s/.gitignore").read_text() == "*\n"


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_store_is_private_to_its_owner_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write(Store(tmp_path / "deep/s"))
    finally:
        os.umask(before)
    assert (tmp_path / "deep/s").stat().st_mode & 0o777 == 0o700


def test_store_in_a_folder_of_a_group_can_be_written_by_it(tmp_path: Path) -> None:
    shared = tmp_path / "s"
    shared.mkdir()
    shared.chmod(0o2770)
    before = os.umask(0o002)
    try:
        store = Store(shared)
        write(store)
        journal(store, "one", "key").close(finished=False)
    finally:
        os.umask(before)
    assert all(path.stat().st_mode & 0o020 for path in shared.rglob("*"))


def test_a_key_depends_on_every_value_and_on_no_order() -> None:
    assert key_of({"a": 1, "b": [2]}) == key_of({"b": [2], "a": 1})
    assert len({key_of(d) for d in ({"a": 1}, {"a": 2}, {"a": "1"}, {"b": 1}, {"a": 1.5}, {})}) == 6


HARMS: dict[str, Callable[[Path], object]] = {
    "file gone": lambda folder: (folder / "a.bin").unlink(),
    "cut off": lambda folder: (folder / "a.bin").write_bytes(b"some conten"),
    "bit flipped": lambda folder: (folder / "a.bin").write_bytes(b"some_content"),
    "manifest gone": lambda folder: (folder / "manifest.json").unlink(),
    "manifest empty": lambda folder: (folder / "manifest.json").write_bytes(b""),
    "a file too many": lambda folder: (folder / "another").write_bytes(b""),
    "all empty": lambda folder: [file.write_bytes(b"") for file in folder.iterdir()],
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_a_half_written_or_damaged_entry_is_reported_and_replaced(tmp_path, harm):
    said: list[str] = []
    store = Store(tmp_path, report=said.append)
    key = write(store)
    harm(store.folder_of(key))
    assert store.find(key) is None
    assert said == [f"store: the entry {key[:12]} is damaged and is computed anew"]
    assert write(store) == key
    assert store.find(key) is not None


def full_disk(*args: object, **kwargs: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def broken(file: object) -> None:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        store.write("x", DEPENDS, {"a": lambda f: f.write(b"1"), "b": broken})
    assert store.entries() == []
    assert list((tmp_path / "scratch").iterdir()) == []


def test_the_first_of_two_entries_stays_unless_it_is_replaced(tmp_path: Path) -> None:
    store = Store(tmp_path)
    key = write(store, b"first")
    assert not store.write("x", DEPENDS, {"a.bin": lambda f: f.write(b"second")})
    assert (store.folder_of(key) / "a.bin").read_bytes() == b"first"
    assert write(store, b"third", replace=True) == key
    assert (store.folder_of(key) / "a.bin").read_bytes() == b"third"


def test_least_recently_used_entries_are_pruned_first(tmp_path: Path) -> None:
    one = Store(tmp_path)
    keys = [write(one, b"x" * 1000, number=number) for number in range(4)]
    for place, key in enumerate(keys):
        use_at(one, key, 100 - place)
    assert one.find(keys[0]) is not None  # used now
    size = one.entries()[0].size
    store = Store(tmp_path, max_size=f"{3 * size}B")
    last = write(store, b"x" * 1000, number=4)
    assert {facts.key for facts in store.entries()} == {keys[0], keys[3], last}


def test_an_entry_larger_than_the_store_stays_until_the_next_one(tmp_path: Path) -> None:
    store = Store(tmp_path, max_size="100B")
    large = write(store, b"x" * 1000)
    assert store.find(large) is not None
    write(store, b"y", other=1)
    assert store.find(large) is None


def test_entries_of_bake_off_in_progress_are_never_pruned(tmp_path: Path) -> None:
    store = Store(tmp_path)
    used, cut_off, old, other = (write(store, number=n) for n in range(4))
    running = journal(store, "running", used)
    for name, key in (("cut-off", cut_off), ("old", old)):
        journal(store, name, key).close(finished=False)
    long_ago = time.time() - PENDING_SECONDS - 1
    os.utime(store.journals / "old.jsonl", (long_ago, long_ago))
    os.utime(store.journals / "running.jsonl", (long_ago, long_ago))
    assert {facts.key for facts in store.prune(older_than=0, dry_run=True)} == {old, other}
    assert len(store.entries()) == 4
    assert {facts.key for facts in store.prune(older_than=0)} == {old, other}
    running.close(finished=True)
    assert {facts.key for facts in store.prune(older_than=0)} == {used}


def test_pruning_goes_by_age_and_by_size(tmp_path: Path) -> None:
    store = Store(tmp_path)
    keys = [write(store, b"x" * 1000, number=number) for number in range(3)]
    for days, key in zip((40, 20, 10), keys, strict=True):
        use_at(store, key, days * 86_400)
    assert store.prune() == []
    assert [f.key for f in store.prune(older_than=30 * 86_400, dry_run=True)] == [keys[0]]
    assert [f.key for f in store.prune(max_size=1200)] == keys[:2]
    assert [f.key for f in store.entries()] == [keys[2]]


def in_process(work: Callable[..., object], *args: object) -> multiprocessing.process.BaseProcess:
    process = multiprocessing.get_context("fork").Process(target=work, args=args)
    process.start()
    return process


def read_slowly(folder: Path) -> bytes:
    time.sleep(0.002)
    return (folder / "a.bin").read_bytes()


def busy(path: Path, number: int) -> None:
    said: list[str] = []
    store = Store(path, max_size="20KB", report=said.append)
    cache = StepCache(store)
    for turn in range(30):
        write(store, bytes([turn]) * 700, number=turn % 7)
        content = cache._read({**DEPENDS, "number": turn % 7}, read_slowly)
        assert content is None or len(content) == 700
        if turn % 10 == number:
            store.prune(max_size=2000)
    assert said == []  # what was pruned is not damaged


def test_several_processes_write_read_and_prune_at_once(tmp_path: Path) -> None:
    processes = [in_process(busy, tmp_path, number) for number in range(4)]
    for process in processes:
        process.join(300)
    assert [process.exitcode for process in processes] == [0, 0, 0, 0]
    store = Store(tmp_path)
    assert all(is_intact(store.folder_of(facts.key)) for facts in store.entries())


def test_use_is_recorded_before_lookup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    reader, key = StepCache(store), write(store, number=0)
    use_at(store, key, 3600)
    reader.journal = journal(store)
    find = Store.find

    def prune_and_find(self: Store, key: str) -> Path | None:
        assert store.prune(older_than=0) == []
        return find(self, key)

    monkeypatch.setattr(Store, "find", prune_and_find)
    assert reader._read({**DEPENDS, "number": 0}, lambda folder: (folder / "a.bin").read_bytes())


def test_entry_pruned_while_read_is_missing(tmp_path: Path) -> None:
    reader = StepCache(Store(tmp_path))
    write(reader.store, number=0)

    def read(folder: Path) -> bytes:
        assert len(Store(tmp_path).prune(older_than=0)) == 1
        return (folder / "a.bin").read_bytes()

    assert reader._read({**DEPENDS, "number": 0}, read) is None


def killed_while_writing(path: Path) -> None:
    def die(file: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    Store(path).write("x", DEPENDS, {"a": lambda f: f.write(b"1" * 9999), "b": die})


def test_scratch_of_killed_process_is_removed_after_a_day(tmp_path: Path) -> None:
    process = in_process(killed_while_writing, tmp_path)
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    (left,) = (tmp_path / "scratch").iterdir()
    assert Store(tmp_path).entries() == []
    assert left.exists()  # it might be one of a running process
    long_ago = time.time() - 2 * 86_400
    os.utime(left, (long_ago, long_ago))
    Store(tmp_path)
    assert list((tmp_path / "scratch").iterdir()) == []


def test_scratch_of_living_process_is_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.scratch() as folder:
        (folder / "x").write_text("mine")
        Store(tmp_path)
        assert (folder / "x").read_text() == "mine"
    assert not folder.exists()


def test_the_folder_is_named_by_argument_then_variable_then_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert store_path() == Path.cwd() / ".evalplugin"
    monkeypatch.setenv("EVALPLUGIN_STORE", "/elsewhere/kept")
    assert store_path() == Path("/elsewhere/kept")
    assert store_path("here") == Path.cwd() / "here"


def test_a_folder_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"the store .*file: .*; name another folder by .* EVALPLUGIN_STORE"):
        Store(tmp_path / "file")
    with pytest.raises(DataError, match="max_size must be a size such as 2GB or 500MB, not 'much'"):
        Store(tmp_path / "s", max_size="much")


def tree(folder: Path) -> dict[str, int]:
    """Return all that is in a folder, with the times of the last change."""
    return {str(path): path.lstat().st_mtime_ns for path in (folder, *folder.rglob("*"))}


@pytest.mark.parametrize("names", [["notes.txt"], ["entries/2024/post.md"], ["a", "b", "c", "d"]])
def test_folder_with_foreign_files_is_refused_and_unchanged(tmp_path, names, capsys):
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("mine")
    if len(names) == 1:
        (tmp_path / "README.md").write_text("mine")
    before = tree(tmp_path)
    words = "a, b, c and more" if len(names) > 1 else "README.md"
    with pytest.raises(StoreError, match=rf"is not a store: it holds {words}.*; name another folder by"):
        Store(tmp_path)
    for command in (["cache", "list"], ["cache", "prune", "--all"]):
        assert main([*command, "--store", str(tmp_path)]) == 0
    err = capsys.readouterr().err
    assert "nothing is stored in" in err
    assert "removed 0 entries" in err
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    "names",
    ["", "lost+found/", ".gitignore", "entries/", "entries/ bakeoffs/", "bakeoffs/ scratch/ lock"],
    ids=["empty", "a disk's", "committed", "begun", "begun and cut off", "entries removed"],
)
def test_an_empty_folder_becomes_a_store_and_one_that_was_begun_is_completed(tmp_path, names):
    for name in names.split():
        (tmp_path / name).mkdir() if name.endswith("/") else (tmp_path / name).touch()
    store = Store(tmp_path)
    key = write(store)
    assert (tmp_path / ".gitignore").read_text() == "*\n"
    (tmp_path / "notes.txt").write_text("a user's")
    assert Store(tmp_path).find(key) is not None  # a store stays one


def test_store_view_only_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(tmp_path / "s")
    key = write(store)
    (store.path / "lock").unlink()
    before = tree(store.path)
    assert main(["cache", "list", "--store", str(store.path)]) == 0
    assert capsys.readouterr().out.count(key[:12]) == 1
    assert tree(store.path) == before


def test_store_lock_timeout_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_folder, "_LOCK_SECONDS", 0)
    first, second = Store(tmp_path), Store(tmp_path)
    with (
        first._locked(),
        pytest.raises(StoreError, match=r"has been held by another process for 0 s \(its lock: "),
    ):
        write(second)


def test_reopened_journal_has_all_records(tmp_path: Path) -> None:
    store = Store(tmp_path)
    written = journal(store, "b", "k1", "k2")
    written.record_use("k1")
    failure = TaskFailure("Traceback ...\nValueError: no")
    written.record_failure("data/split/model/0", failure)
    (seen,) = unfinished(store.journals)
    assert (seen.entries, seen.failures) == ({"k1", "k2"}, {"data/split/model/0": failure})
    assert Journal.reopen(written.path) is None  # its process is there
    written.close(finished=False)
    with written.path.open("ab") as file:
        file.write(b'{"uses": "k')  # a line that was cut off
    again = Journal.reopen(written.path)
    assert again.entries == {"k1", "k2"}
    again.record_use("k3")
    again.close(finished=False)
    (seen,) = unfinished(store.journals)
    assert seen.entries == {"k1", "k2", "k3"}
    last = Journal.reopen(written.path)
    last.close(finished=True)
    assert list(store.journals.iterdir()) == []
    assert Journal.reopen(written.path) is None


def test_the_newest_journal_comes_first_and_one_without_a_first_line_is_none(tmp_path: Path) -> None:
    for number, started in enumerate((30.0, 10.0, 20.0)):
        Journal.create(tmp_path, Header(str(number), {}, {}, started, False)).close(finished=False)
    (tmp_path / "x.jsonl").write_bytes(b'{"id": "x", "ask')
    assert [one.header.id for one in unfinished(tmp_path)] == ["0", "2", "1"]
    assert keys_in_use(tmp_path) == set()


def test_journal_that_cannot_be_created_leaves_no_file(tmp_path, monkeypatch):
    store = Store(tmp_path)
    monkeypatch.setattr(Path, "open", full_disk)
    with pytest.raises(StoreError, match=r"cannot begin a bake-off in the store .*: No space left on device"):
        journal(store)
    assert list(store.journals.iterdir()) == []


def test_unwritable_journal_is_reported_once_and_keeps_whole_lines(tmp_path: Path) -> None:
    said: list[str] = []
    store = Store(tmp_path)
    written = journal(store, "one", "k1")
    written.report = said.append
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (written.path.stat().st_size + 5, before[1]))
    try:
        written.record_use("k2")
        written.record_use("k3")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert said == [
        f"store: cannot write {written.path}: File too large; should the bake-off be cut off, some of it will be "
        f"computed again"
    ]
    (seen,) = unfinished(store.journals)
    assert seen.entries == {"k1"}
    written.close(finished=True)
    assert list(store.journals.iterdir()) == []


def test_times_are_days_hours_minutes_and_seconds() -> None:
    assert [seconds_of(t, "x") for t in ("30d", "12h", "15 m", "1.5s", "2W")] == [
        30 * 86_400, 12 * 3600, 15 * 60, 1.5, 14 * 86_400,
    ]  # fmt: skip
    with pytest.raises(DataError, match=r"must be a time such as 30d, 12h, 15m or 90s, not '30'"):
        seconds_of("30", "--older-than")


@given(st.integers(1, 10**14))
def test_sizes_are_read_with_their_units_and_back(size: int) -> None:
    assert bytes_of(f"{size}B") == size
    assert abs(bytes_of(size_text(size)) - size) <= 0.06 * size + 1
    given = ("2GB", "1.5 MiB", "500kb", 7, "12")
    assert [bytes_of(text) for text in given] == [2 * 2**30, 3 * 2**19, 500 * 2**10, 7, 12]
    for text in ("", "GB", "-1GB", "0", "2 parsecs"):
        with pytest.raises(DataError, match="memory must be a size such as 2GB"):
            bytes_of(text)


def test_the_cache_is_listed_and_pruned(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "list"]) == 0
    assert capsys.readouterr() == ("", "nothing is stored in .evalplugin\n")
    assert not Path(".evalplugin").exists()  # looking makes no folder
    assert main(["cache", "prune", "--all"]) == 0
    assert "removed 0 entries" in capsys.readouterr().err
    store = Store(store_path())
    keys = [write(store, number=number) for number in range(2)]
    use_at(store, keys[0], 40 * 86_400)
    assert main(["cache", "list"]) == 0
    out, err = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines()] == [keys[1][:12], keys[0][:12]]
    assert "lists of a test" in out
    assert err == "2 entries, 36 B, in .evalplugin\n"
    assert main(["cache", "prune"]) == 2
    assert "say what to remove: --older-than 30d, --max-size 5GB or --all" in capsys.readouterr().err
    assert main(["cache", "prune", "--older-than", "30d", "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(keys[0][:12])
    assert err == "would remove 1 entry, 18 B; 1 stay, 18 B\n"
    assert main(["cache", "prune", "--max-size", "0"]) == 2
    assert "such as 2GB or 500MB, not '0'; to remove everything: --all" in capsys.readouterr().err
    assert main(["cache", "prune", "--max-size", "much"]) == 2
    assert "--all" not in capsys.readouterr().err
    assert main(["cache", "prune", "--older-than", "soon"]) == 2
    assert "--older-than must be a time" in capsys.readouterr().err
    assert main(["cache", "prune", "--max-size", "20B"]) == 0
    assert capsys.readouterr().err == "removed 1 entry, 18 B; 1 stay, 18 B\n"
    (store.folder_of(keys[1]) / "manifest.json").write_bytes(b"{")
    assert main(["cache", "list"]) == 0
    assert "damaged" in capsys.readouterr().out
    assert main(["cache", "prune", "--all"]) == 0
    assert store.entries() == []
    assert main(["cache", "list", "--store", "nowhere"]) == 0
    assert "nothing is stored in nowhere" in capsys.readouterr().err
