"""Write the generated parts of the documentation: `python docs/generate.py`; `--check` names stale pages.

A part stands between `<!-- generated: KIND NAMES -->` and `<!-- end of generated -->`, as plain Markdown that can be
read on the site, in a clone and on a repository's pages. A page of more than four screens has its contents at the
top, unless it begins with a table of all its parts.
"""

from __future__ import annotations

import inspect
import json
import pkgutil
import re
import sys
import textwrap
import types
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import click
from config_keys import ConfigKey, config_keys

from evalplugin.cli.list import registry_of
from evalplugin.cli.program import cli
from evalplugin.components.parameters import Parameter, parameters_of
from evalplugin.components.registry import Entry
from evalplugin.features.checks.catalogue import CHECKS, check_of
from evalplugin.lists.profiles import EVERY_RATING, PROFILES
from evalplugin.models.base import cold_answer

DOCS = Path(__file__).parent
_LONG = {"words": 1_100, "lines": 180}  # four screens
_END = "<!-- end of generated -->"
_PART = re.compile(rf"(<!-- generated: ([\w-]+)\s*(.*?)\s*-->\n).*?{_END}\n", re.DOTALL)


def stale_pages() -> dict[Path, str]:
    """Return the new text of each page that differs from what the code makes of it."""
    texts = {page: page.read_text() for page in sorted(DOCS.rglob("*.md")) if "_build" not in page.parts}
    return {page: new for page, text in texts.items() if (new := _updated(page, text)) != text}


def _updated(page: Path, text: str) -> str:
    markers = re.findall(r"<!-- generated: ([\w-]+)", text)
    kinds = {*markers}
    unknown = sorted(kinds - {*_KINDS})
    if unknown or len(markers) != text.count(_END):
        found = f"unknown {', '.join(unknown)}" if unknown else f"not one `{_END}` for each"
        raise ValueError(f"{page}: markers of generated parts: {found}; kinds: {', '.join(sorted(_KINDS))}")
    text = _PART.sub(lambda part: _part(part[1], _KINDS[part[2]](page, part[3])), text)
    is_long = len(text.split()) > _LONG["words"] or text.count("\n") > _LONG["lines"]
    if is_long and not kinds & {"commands", "components", "contents"}:
        # After the title and the paragraph below it, unless that leads to what follows.
        start = r"# .*\n\n(\w(.+\n)+(?<!:\n)\n)?"
        text = re.sub(start, rf"\g<0><!-- generated: contents -->\n{_END}\n\n", text, count=1)
    contents = _contents(text)  # of headings that may be new
    return _PART.sub(lambda part: _part(part[1], contents) if part[2] == "contents" else part[0], text)


def _part(start: str, body: str) -> str:
    return f"{start}\n{body}\n\n{_END}\n" if body else f"{start}{_END}\n"


# The kinds of parts: each takes the page's path and the names of the marker.


def _components(page: Path, kind: str) -> str:
    """Return a table of the registered components of one kind, and a section for each."""
    entries = [entry for entry in registry_of(kind) if entry.is_own]
    rows = [(f"[`{entry.name}`](#{_slug(entry.name)})", entry.summary) for entry in entries]
    sections = (
        f"## {entry.name}\n\n{_markdown(entry.cls.__doc__)}\n\n"
        f"{_cold_users(kind, entry)}{_parameters(parameters_of(entry.cls))}"
        for entry in entries
    )
    return "\n\n".join([_table((kind.removesuffix("s"), "what it is"), rows), *sections])


def _config_keys(page: Path, sections: str) -> str:
    """Return a list of the keys of some sections of a config."""
    return "\n".join(_key(key) for section in sections.split() for key in config_keys(section))


_LOOKS_AT = {
    "data": "the data, before anything is fitted",
    "models": "the models on a sample of the data, by `evalplugin validate --data`",
    "results": "the results",
}


def _check(page: Path, code: str) -> str:
    """Return when a check finds something, why it matters, and what to do."""
    check = check_of(code)
    parts = {
        f"A check of {_LOOKS_AT[check.kind]}.": check.rule,
        "Why it matters.": check.why,
        "Source.": check.source,
        "What to do.": check.remedy,
    }
    return "\n\n".join(f"**{head}** {text}" for head, text in parts.items())


def _checks(page: Path, names: str) -> str:
    """Return a table of all checks."""
    rows = [(f"[{code}]({code}.md)", check.title, check.kind) for code, check in sorted(CHECKS.items())]
    return _table(("code", "finds", "looks at"), rows)


def _profiles(page: Path, names: str) -> str:
    """Return a table of the libraries that `score --as` knows, and the names of their metrics for each."""
    over = {"truth": "all with a truth", "lists": "all with a list", "both": "users with both"}
    rows = [
        (
            f"`{one.name}`",
            one.library,
            over[one.users],
            "0" if one.without_relevant == "zero" else "left out",
            "every item of the truth"
            if one.relevance == EVERY_RATING
            else f"rating {one.relevance.threshold:g} or more",
            "as listed" if one.ties == "given" else "item id as text, descending",
        )
        for one in PROFILES.values()
    ]
    head = ("`--as`", "library", "mean over", "without relevant truth", "relevant", "equal scores")
    parts = [_table(head, rows)]
    for one in PROFILES.values():
        # A cutoff beyond every list is not shown.
        metrics = [
            (f"`{theirs}`", f"`{re.sub(r'@[0-9]{6,}$', '', ours)}`") for theirs, ours in one.metrics.items()
        ]
        differs = "\n".join(f"- {reason}" for reason in one.differs)
        parts.append(
            f"<details>\n<summary>{one.library}: names of metrics</summary>\n\n{_table(('there', 'here'), metrics)}\n\n"
            f"Not reproduced:\n\n{differs}\n\n[Source]({one.source})\n\n</details>"
        )
    return "\n\n".join(parts)


def _commands(page: Path, names: str) -> str:
    """Return a table of all commands, and a section for each: usage, help and options."""
    commands = dict(_walk(click.Context(cli, info_name="evalplugin", **cli.context_settings)))
    rows = [
        (f"[{path}](#{_slug(path)})", context.command.get_short_help_str(limit=150))
        for path, context in commands.items()
    ]
    return "\n\n".join([_table(("command", "what it does"), rows), *map(_command, commands.values())])


def _walk(context: click.Context) -> Iterator[tuple[str, click.Context]]:
    yield context.command_path, context
    if isinstance(context.command, click.Group):
        for name, command in context.command.commands.items():
            yield from _walk(click.Context(command, info_name=name, parent=context))


def _command(context: click.Context) -> str:
    command = context.command
    # After \b, lines stay as they are.
    about = [
        textwrap.indent(part.removeprefix("\b\n"), "    ") if part.startswith("\b\n") else part
        for part in inspect.cleandoc(command.help or "").split("\n\n")
    ]
    usage = "    " + " ".join([context.command_path, *command.collect_usage_pieces(context)])
    options = [option for option in command.get_params(context) if isinstance(option, click.Option)]
    records = filter(None, (option.get_help_record(context) for option in options))
    rows = [(f"`{names}`", meaning.replace("  [", " [")) for names, meaning in records]
    return "\n\n".join([f"## {context.command_path}", usage, *about, _table(("option", "meaning"), rows)])


def _python(page: Path, names: str) -> str:
    """Return sections on functions, classes and modules: a name in each line, then members, `*` for all public ones."""
    return "\n\n".join(_object(*line.split()) for line in names.splitlines())


def _object(path: str, *members: str) -> str:
    value = pkgutil.resolve_name(path)
    if "*" in members:
        members = tuple(getattr(value, "__all__", ())) or tuple(
            name for name, member in vars(value).items() if name[0] != "_" and _is_documented(member)
        )
    listed = "\n\n".join(_member(name, inspect.getattr_static(value, name), value) for name in members)
    about = _markdown(value.__doc__)
    if isinstance(value, types.ModuleType):
        return f"{about}\n\n{listed}"
    call = (
        f"```py\n{'class ' if inspect.isclass(value) else ''}{path}{_signature(value, 88 - len(path))}\n```"
    )
    return "\n\n".join(filter(None, (f"### {path.rpartition('.')[2]}", call, about, listed)))


def _is_documented(member: object) -> bool:
    kinds = (types.FunctionType, property, cached_property, classmethod, staticmethod)
    return isinstance(member, kinds) and bool(member.__doc__)


def _member(name: str, member: Any, owner: Any) -> str:
    """Return an item of a list: a property, a method, or a function or an error of a module."""
    getter = member.fget if isinstance(member, property) else getattr(member, "func", None)
    if getter is not None:
        head = f"{name}: {inspect.signature(getter).return_annotation}"
    elif inspect.isclass(member):
        head = f"{name}({member.__base__.__name__})"
    else:
        head = name + _signature(getattr(owner, name), 1_000)
    return f"- `{head}`\n\n{textwrap.indent(_markdown(member.__doc__), '  ')}"


class _Words(str):
    """An annotation in the words of the code."""

    __slots__ = ()
    __repr__ = str.__str__


def _signature(function: Callable[..., Any], width: int) -> str:
    """Return the parameters of a call, one a line where they are longer than the width; none for a protocol."""
    if getattr(function, "_is_protocol", False):
        return "(Protocol)"
    signature = inspect.signature(function)
    parameters: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not any(text[0] == "*" for text in parameters):
            parameters.append("*")
        if parameter.name != "self":
            # The text of a function or an object that is a default has its address in memory.
            if isinstance(parameter.annotation, str):
                parameter = parameter.replace(annotation=_Words(parameter.annotation))
            parameters.append(re.sub(r"<(function|object) .*>", "...", str(parameter)))
    returned = signature.return_annotation
    after = "" if inspect.isclass(function) or returned is signature.empty else f" -> {returned}"
    short = f"({', '.join(parameters)}){after}"
    return short if len(short) <= width else "(\n    " + ",\n    ".join(parameters) + f",\n){after}"


def _pages(page: Path, names: str) -> str:
    """Return a list of links to pages of the same folder, by their titles."""
    titles = {name: (page.parent / f"{name}.md").read_text() for name in names.split()}
    return "\n".join(
        f"- [{re.search(r'^# (.*)$', text, re.MULTILINE)[1]}]({name}.md)" for name, text in titles.items()
    )


_KINDS: dict[str, Callable[[Path, str], str]] = {
    "check": _check,
    "checks": _checks,
    "commands": _commands,
    "components": _components,
    "config-keys": _config_keys,
    "contents": lambda page, names: "",  # when the rest of the page is there
    "pages": _pages,
    "profiles": _profiles,
    "python": _python,
}


def _contents(text: str) -> str:
    """Return a list of links to the sections of a page, and to their own sections in the same line."""
    sections: list[list[str]] = []
    seen: Counter[str] = Counter()
    for marks, title in re.findall(
        r"^(#+) (.*)$", re.sub(r"^ *```.*?^ *```$", "", text, flags=re.M | re.S), re.M
    ):
        slug = _slug(title)
        link = f"[{title}](#{slug}-{seen[slug]})" if seen[slug] else f"[{title}](#{slug})"
        seen[slug] += 1
        if marks == "##":
            sections.append([link])
        elif marks == "###":
            sections[-1].append(link)
    return "\n".join(f"- {': '.join(filter(None, (one, ', '.join(below))))}" for one, *below in sections)


def _slug(title: str) -> str:
    """Return the anchor of a heading, as GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _markdown(docstring: str | None) -> str:
    """Return a docstring as Markdown: sections as lists, doctests in fences, sources as paragraphs."""
    text = re.sub(r"\s(Undefined)(?=\s)", r"\n\n**\1**", inspect.cleandoc(docstring or ""), count=1)
    text = re.sub(
        r"^(Args|Attributes|Returns|Raises):\n((?:\n| {4}.*\n?)+)", _section, text, flags=re.MULTILINE
    )
    parts = re.sub(r"^Source:", "**Source:**", text, flags=re.MULTILINE).replace("::\n", ":\n").split("\n\n")
    parts = [f"```pycon\n{part}\n```" if part.startswith(">>>") else part.strip("\n") for part in parts]
    return "\n\n".join(filter(None, parts))


def _section(section: re.Match[str]) -> str:
    """Return a section of a docstring as a list, or as a paragraph where nothing is named."""
    items = re.split(r"\n(?=\S)", textwrap.dedent(section[2]).strip())
    lines = [re.sub(r"^([\w.*, ]+): ", _names, re.sub(r"\n\s*", " ", item)) for item in items]
    if section[1] == "Returns":
        return f"**Returns:** {' '.join(lines)}\n\n"
    return f"**{section[1]}:**\n\n" + "".join(f"- {line}\n" for line in lines) + "\n"


def _names(names: re.Match[str]) -> str:
    return ", ".join(f"`{name}`" for name in names[1].split(", ")) + ": "


def _cold_users(kind: str, entry: Entry[Any]) -> str:
    return f"Users without train data get: {cold_answer(entry.cls)}.\n\n" if kind == "models" else ""


def _parameters(parameters: list[Parameter]) -> str:
    if not parameters:
        return "It takes no parameters."
    rows = [
        (
            f"`{parameter.name}`",
            parameter.type.replace("|", "or"),
            ""
            if parameter.type == "mapping"
            else "required"
            if parameter.required
            else f"`{json.dumps(parameter.default)}`",
            parameter.description,
        )
        for parameter in parameters
    ]
    return _table(("parameter", "type", "default", "meaning"), rows)


def _key(key: ConfigKey) -> str:
    about = [key.type]
    if key.default:
        about.append("required" if key.default == "required" else f"default `{key.default}`")
    if key.example and not key.is_section:
        name = key.path.rpartition(".")[2]
        about.append(f"for example `{name}: {key.example}`")
    facts = "; ".join(filter(None, about))
    return f"- `{key.path}`: {key.description}" + (f" *({facts})*" if facts else "")


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines)


def main(arguments: list[str]) -> int:
    """Write the stale pages, or with ``--check`` return 1 if there are any."""
    if arguments not in ([], ["--check"]):
        print("usage: python docs/generate.py [--check]")
        return 2
    stale = stale_pages()
    for page, text in stale.items():
        print(page.relative_to(DOCS.parent))
        if arguments != ["--check"]:
            page.write_text(text)
    if arguments == ["--check"] and stale:
        print("these pages are stale: python docs/generate.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
