"""The commands ``cache`` and ``sync``: what the store holds, and what it holds that MLflow does not."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evalplugin.base.errors import EXIT_DONE, EXIT_FAILED, EvalpluginError
from evalplugin.cli import options
from evalplugin.cli.shared import show_error

if TYPE_CHECKING:
    from evalplugin.execution.store import Facts, StoreView

__all__ = ["cache", "sync"]

_store = click.option(
    "--store",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="EVALPLUGIN_STORE",
    show_envvar=True,
    default=".evalplugin",
    show_default=True,
    help="Folder of the store; one that a config names under store.path is to be given here.",
)


@click.command()
@_store
@options.debug
@click.pass_context
def sync(context: click.Context, folder: Path) -> int:
    """Log what was computed while MLflow could not be reached; nothing is computed."""
    from evalplugin.bakeoff.resuming import since
    from evalplugin.execution.store.journal import is_running, unfinished

    run = context.find_root().command.commands["run"]  # type: ignore[attr-defined]
    code, here = EXIT_DONE, str(Path.cwd())
    waiting = [] if (store := _opened(folder)) is None else unfinished(store.journals)
    if not waiting:
        click.echo(f"nothing to log: no bake-off was cut off ({folder})")
    for journal in waiting:
        header = journal.header
        what = f"bake-off {header.id}, started {since(journal)}"
        if is_running(journal):
            click.echo(f"{what}, is still running", err=True)
            continue
        click.echo(what, err=True)
        try:
            if not header.command:
                raise EvalpluginError(
                    "it was started from Python: evalplugin.run(..., resume=True) goes on with it"
                )
            if header.folder != here:
                raise EvalpluginError(f"it was started in {header.folder}: go there")
            if any("***" in part for part in header.command):
                raise EvalpluginError(
                    "its credentials are not kept: set MLFLOW_TRACKING_URI, and use run --resume without --tracking-uri"
                )
            command = ["--sync", *header.command]
            with _named(folder):
                done = run.main(command, "evalplugin run", standalone_mode=False, obj=context.obj)
            code = max(code, done or EXIT_DONE)
        except EvalpluginError as error:
            show_error(str(error))
            code = EXIT_FAILED
    return code


@click.group()
def cache() -> None:
    """Show and prune the store of finished steps."""


@cache.command("list")
@_store
@options.debug
def list_(folder: Path) -> int:
    """List the entries, the one used last first."""
    store = _opened(folder)
    found = [] if store is None else store.entries()
    if not found:
        click.echo(f"nothing is stored in {folder}", err=True)
        return EXIT_DONE
    _show(found)
    from evalplugin.base.units import size_text

    total = size_text(sum(facts.size for facts in found))
    click.echo(f"{_count(found)}, {total}, in {folder}", err=True)
    return EXIT_DONE


@cache.command()
@click.argument("key")
@_store
@options.debug
def show(key: str, folder: Path) -> int:
    """Show an entry, by the first digits of its key: what it is, what it depends on, whether it is whole."""
    from evalplugin.base.errors import UnknownNameError
    from evalplugin.base.units import size_text

    store = _opened(folder)
    if store is None:
        raise UnknownNameError(f"nothing is stored in {folder}")
    facts = store.entry(key)
    lines = {
        "key": facts.key,
        "step": facts.step,
        "what": facts.about,
        "created": _time(facts.created),
        "used": _time(facts.used),
        "size": size_text(facts.size),
        "checksums": "right" if store.is_sound(facts.key) else "WRONG: it will be computed anew",
        "folder": str(store.folder_of(facts.key)),
    }
    for label, text in lines.items():
        click.echo(f"{label:<10} {text}")
    click.echo("depends on")
    for label, value in facts.depends_on.items():
        click.echo(
            f"  {label:<10} {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        )
    return EXIT_DONE


@cache.command()
@click.option("--older-than", metavar="TIME", help="What was not used for so long, such as 30d.")
@click.option(
    "--max-size", metavar="SIZE", help="What was not used for the longest time, down to such as 5GB."
)
@click.option("--all", "everything", is_flag=True, help="Everything.")
@click.option("--dry-run", is_flag=True, help="Only show what would go.")
@_store
@options.debug
def prune(older_than: str | None, max_size: str | None, everything: bool, dry_run: bool, folder: Path) -> int:
    """Remove entries; those of a bake-off in progress stay."""
    from evalplugin.base.units import seconds_of, size_text
    from evalplugin.execution.store import Store
    from evalplugin.execution.store.journal import unfinished

    if not (older_than or max_size or everything):
        raise click.UsageError("say what to remove: --older-than 30d, --max-size 5GB or --all")
    if everything and (older_than or max_size):
        raise click.UsageError("--all removes everything: leave out --older-than and --max-size")
    size = None if max_size is None else _size(max_size)
    age = 0.0 if everything else None if older_than is None else seconds_of(older_than, "--older-than")
    view = _opened(folder)
    store = None if view is None else Store(view.path)
    gone = [] if store is None else store.prune(max_size=size, older_than=age, dry_run=dry_run)
    if gone:
        _show(gone)
    left = [] if store is None else [f for f in store.entries() if not dry_run or f not in gone]
    click.echo(
        f"{'would remove' if dry_run else 'removed'} {_count(gone)}, {size_text(sum(f.size for f in gone))}; "
        f"{len(left)} stay, {size_text(sum(f.size for f in left))}",
        err=True,
    )
    for journal in [] if store is None else unfinished(store.journals):
        click.echo(
            f"the bake-off {journal.header.id}, which is not finished, keeps what it has used", err=True
        )
    return EXIT_DONE


def _opened(folder: Path) -> StoreView | None:
    """Return the store in a folder, None if there is none: looking makes and changes nothing."""
    from evalplugin.execution.store import StoreView, store_path

    view = StoreView(store_path(folder))
    return view if view.is_there else None


@contextmanager
def _named(store: Path) -> Iterator[None]:
    """Let the environment name a store: a run that a config tells of no other takes it."""
    from evalplugin.execution.store import STORE

    before = os.environ.get(STORE)
    os.environ[STORE] = str(store)
    try:
        yield
    finally:
        os.environ.pop(STORE)
        if before is not None:
            os.environ[STORE] = before


def _size(text: str) -> int:
    from evalplugin.base.errors import DataError
    from evalplugin.base.units import bytes_of

    try:
        return bytes_of(text, "--max-size")
    except DataError as error:
        hint = "; to remove everything: --all" if text.lstrip().startswith("0") else ""
        raise DataError(f"{error}{hint}") from None


def _show(found: Sequence[Facts]) -> None:
    from evalplugin.base.units import size_text

    for facts in found:
        about = facts.about or "its manifest cannot be read"
        click.echo(
            f"{facts.key[:12]}  {facts.step:<7}  {size_text(facts.size):>8}  {_time(facts.used)}  {about}"
        )


def _count(entries: Sequence[Facts]) -> str:
    return "1 entry" if len(entries) == 1 else f"{len(entries)} entries"


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
