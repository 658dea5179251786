"""The command ``cache``: the store of finished steps."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evalplugin.base.errors import EXIT_DONE, DataError
from evalplugin.base.units import bytes_of, seconds_of, size_text
from evalplugin.cli import options
from evalplugin.cli.shared import echo, open_store, print_diagnostic

if TYPE_CHECKING:
    from evalplugin.execution.store import EntryInfo


@click.group()
def cache() -> None:
    """List and prune the store of finished steps."""


@cache.command("list", cls=options.Command)
@options.store
@options.debug
def list_(folder: Path) -> int:
    """List the entries, the one used last first."""
    store = open_store(folder)
    entries = [] if store is None else store.entries()
    if not entries:
        print_diagnostic(f"nothing is stored in {folder}")
        return EXIT_DONE
    _print_entries(entries)
    print_diagnostic(f"{_count(entries)}, {_total(entries)}, in {folder}")
    return EXIT_DONE


@cache.command(cls=options.Command)
@click.option("--older-than", metavar="TIME", help="What was not used for so long, such as 30d.")
@click.option(
    "--max-size", metavar="SIZE", help="What was not used for the longest time, down to such as 5GB."
)
@click.option("--all", "everything", is_flag=True, help="Everything.")
@click.option("--dry-run", is_flag=True, help="Only show what would go.")
@options.store
@options.debug
def prune(older_than: str | None, max_size: str | None, everything: bool, dry_run: bool, folder: Path) -> int:
    """Remove entries; those of a bake-off in progress stay."""
    from evalplugin.execution.store import Store
    from evalplugin.execution.store.journal import unfinished

    if not (older_than or max_size or everything):
        raise click.UsageError("say what to remove: --older-than 30d, --max-size 5GB or --all")
    if everything and (older_than or max_size):
        raise click.UsageError("--all removes everything: leave out --older-than and --max-size")
    size = None if max_size is None else _max_size(max_size)
    age = 0.0 if everything else None if older_than is None else seconds_of(older_than, "--older-than")
    view = open_store(folder)
    store = None if view is None else Store(view.path)
    removed = [] if store is None else store.prune(max_size=size, older_than=age, dry_run=dry_run)
    _print_entries(removed)
    left = (
        [] if store is None else [entry for entry in store.entries() if not dry_run or entry not in removed]
    )
    verb = "would remove" if dry_run else "removed"
    print_diagnostic(f"{verb} {_count(removed)}, {_total(removed)}; {len(left)} stay, {_total(left)}")
    for journal in [] if store is None else unfinished(store.journals):
        print_diagnostic(f"the bake-off {journal.header.id}, which is not finished, keeps what it has used")
    return EXIT_DONE


def _max_size(text: str) -> int:
    try:
        return bytes_of(text, "--max-size")
    except DataError as error:
        hint = "; to remove everything: --all" if text.lstrip().startswith("0") else ""
        raise DataError(f"{error}{hint}") from None


def _print_entries(entries: Sequence[EntryInfo]) -> None:
    for entry in entries:
        about = entry.about or "its manifest cannot be read"
        size = size_text(entry.size)
        echo(f"{entry.key[:12]}  {entry.step:<7}  {size:>8}  {_time(entry.used)}  {about}")


def _count(entries: Sequence[EntryInfo]) -> str:
    return "1 entry" if len(entries) == 1 else f"{len(entries)} entries"


def _total(entries: Sequence[EntryInfo]) -> str:
    return size_text(sum(entry.size for entry in entries))


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
