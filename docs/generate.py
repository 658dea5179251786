"""Write the generated parts of the documentation and the charts' specifications: `python docs/generate.py`.

`--check` names stale files. `--vega` writes the page's chart library, as the installed vl-convert-python has it.

A part stands between `<!-- generated: KIND NAMES -->` and `<!-- end -->`, as plain Markdown that can be
read on the site, in a clone and on a repository's pages. A page of more than six screens has its contents at the
top, unless it begins with all its parts. A parameter or an option that several have is described once a page.
"""

from __future__ import annotations

import inspect
import itertools
import json
import pkgutil
import re
import sys
import textwrap
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import click
from config_keys import ConfigKey, as_yaml, config_keys

from evalplugin.cli.list import registry_of
from evalplugin.cli.program import cli
from evalplugin.components.parameters import parameters_of
from evalplugin.components.registry import Entry
from evalplugin.features.checks.catalogue import CHECKS, check_of
from evalplugin.lists.profiles import EVERY_RATING, PROFILES
from evalplugin.models.base import cold_answer
from evalplugin.report.charts.library import SPECS, VEGA
from evalplugin.report.charts.specs import chart_specs

DOCS = Path(__file__).parent
_LONG = {"words": 1_700, "lines": 300}  # six screens
_MANY = 12  # components, of which a list says what each is
_USUAL = {  # what the page says once for all
    "metrics": r"\s+Undefined\s+\(NaN\)\s+(for\s+a\s+user\s+without\s+a\s+relevant\s+item\.(?=\s+Range)"
    r"|(for\s+a\s+user\s+)?without\s+a\s+list\.)"
    r"|,\s+and\s+(for\s+all\s+users\s+)?where\s+a\s+model\s+predicts\s+(no\s+ratings|nothing)(?=\.)"
    r"|(?<=\.)\s+Range\s+0\s+to\s+1,\s+higher\s+is\s+better\.|(?<=\.)\s+It\s+takes\s+no\s+k\.(?=\s)"
    r"| *>>> from evalplugin\.metrics import evaluate\n|(?<=Undefined) \(NaN\)",
    "models": r"(?<=\.)\s+Zero\s+for\s+items\s+without\s+train\s+data\.",
}
_FEW = 4  # parameters that stand in a line
_END = "<!-- end -->"
_PART = re.compile(rf"(<!-- generated: ([\w-]+)\s*(.*?)\s*-->\n).*?{_END}\n", re.DOTALL)


def stale_pages() -> dict[Path, str]:
    """Return the new text of each page, and of the file of specifications, that differs from what the code makes."""
    texts = {page: page.read_text() for page in sorted(DOCS.rglob("*.md")) if "_build" not in page.parts}
    updated = {page: _updated(page, text) for page, text in texts.items()}
    texts[SPECS] = SPECS.read_text()
    charts = (f"{json.dumps(name)}: {json.dumps(chart)}" for name, chart in chart_specs().items())
    updated[SPECS] = "{\n" + ",\n".join(charts) + "\n}\n"
    return {page: new for page, new in updated.items() if new != texts[page]}


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
    """Return an overview of the registered components of one kind, and a section for each."""
    entries = [entry for entry in registry_of(kind) if entry.is_own]
    details = {entry.name: _parameters(kind, entry) for entry in entries}
    shared = _shared(details, 6)
    links = {entry.name: f"[`{entry.name}`](#{_slug(entry.name)})" for entry in entries}
    is_many = len(entries) > _MANY
    summaries = [f"- {links[entry.name]}: {entry.summary}" for entry in entries]
    parts = ["\n".join(summaries) if is_many else ", ".join(links.values())]
    if shared:
        parts.append(f"## Shared parameters\n\n{_details(shared)}")
    seen: dict[_Detail, tuple[str, str]] = {}
    for entry in entries:
        about = _markdown(re.sub(_USUAL.get(kind, "$^"), "", entry.cls.__doc__ or ""))
        if is_many:
            about = about.partition("\n\n")[2]  # the first paragraph is in the list
        cold = _cold_users(entry) if kind == "models" else ""
        found = _found(entry.name, details[entry.name], shared, seen)
        parts.append("\n\n".join(filter(None, (f"## {entry.name}", about, cold, found))))
    return "\n\n".join(parts)


def _config_keys(page: Path, sections: str) -> str:
    """Return a list of the keys of some sections of a config, less the sections and what every type has."""
    shown = "".join(re.findall(r"^```yaml\n.*?^```", page.read_text(), re.MULTILINE | re.DOTALL))
    keys = [key for section in sections.split() for key in config_keys(section)]
    described = [
        key
        for key in keys
        if not ((key.is_section and key.path in sections.split()) or key.description.startswith(_OF_TYPES))
    ]
    return "\n".join(_key(key, shown) for key in described)


_OF_TYPES = ("Registered type", "Name in results", "The parameters of the type")


_LOOKS_AT = {
    "data": "the data",
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
    """Return a list of all commands, and a section for each: usage, help and options."""
    root = click.Context(cli, info_name="evalplugin", **cli.context_settings)
    commands = {path.removeprefix("evalplugin "): context for path, context in _walk(root)}
    summaries = [
        f"- [{path}](#{_slug(path)}): {context.command.get_short_help_str(limit=150)}"
        for path, context in commands.items()
    ]
    options = {path: _options(context) for path, context in commands.items()}
    of_all = [detail for detail in _shared(options, 4) if detail.name in ("`--debug`", "`-h, --help`")]
    options = {path: [one for one in found if one not in of_all] for path, found in options.items()}
    shared = _shared(options, 4)
    parts = [
        "\n".join(summaries),
        f"## Shared options\n\n{_details([*of_all, *shared])}",
    ]
    seen: dict[_Detail, tuple[str, str]] = {}
    for path, context in commands.items():
        found = _found(path, options[path], shared, seen)
        parts += filter(None, (f"## {path}", *_command(context), found))
    return "\n\n".join(parts)


def _walk(context: click.Context) -> Iterator[tuple[str, click.Context]]:
    yield context.command_path, context
    if isinstance(context.command, click.Group):
        for name, command in context.command.commands.items():
            yield from _walk(click.Context(command, info_name=name, parent=context))


def _command(context: click.Context) -> Iterator[str]:
    """Yield the usage and the help of a command, less the sentence that the list has."""
    command = context.command
    yield "    " + " ".join([context.command_path, *command.collect_usage_pieces(context)[1:]])
    first = command.get_short_help_str(limit=150)
    for part in inspect.cleandoc(command.help or "").removeprefix(first).strip().split("\n\n"):
        # After \b, lines stay as they are.
        yield textwrap.indent(part.removeprefix("\b\n"), "    ") if part.startswith("\b\n") else part


def _options(context: click.Context) -> list[_Detail]:
    options = [option for option in context.command.get_params(context) if isinstance(option, click.Option)]
    records = filter(None, (option.get_help_record(context) for option in options))
    return [
        _Detail(f"`{names}`", "", "", re.sub("; wins over [^.]*|(?<= ) +", "", meaning).lstrip())
        for names, meaning in records
    ]


class _Detail(NamedTuple):
    """A parameter or an option, as Markdown; equal ones are described once a page."""

    name: str
    type: str
    default: str
    meaning: str

    @property
    def alone(self) -> _Detail:
        """The same without its default, which may differ where the meaning is shared."""
        return self._replace(default="")


def _shared(found: Mapping[str, list[_Detail]], least: int) -> list[_Detail]:
    """Return what at least so many of the components or commands have, with a default that all of them have."""
    defaults: dict[_Detail, list[str]] = {}
    for detail in itertools.chain(*found.values()):
        defaults.setdefault(detail.alone, []).append(detail.default)
    return [
        detail._replace(default=texts[0] if len({*texts}) == 1 else "")
        for detail, texts in defaults.items()
        if len(texts) >= least
    ]


def _found(
    name: str, details: list[_Detail], shared: Sequence[_Detail], seen: dict[_Detail, tuple[str, str]]
) -> str:
    """Return a list of what a component has, and lines of what is described above: shared, or as of another."""
    of_all = {detail.alone: detail.default for detail in shared}
    own = [detail for detail in details if detail.alone not in (*of_all, *seen)]
    above: dict[str, dict[str, None]] = {}
    for detail in details:
        if detail.alone in of_all:
            kind = "options" if detail.name.startswith("`-") else "parameters"
            link, default = f"[Shared](#shared-{kind})", of_all[detail.alone]
        elif detail.alone in seen:
            owner, default = seen[detail.alone]
            link = f"As in [{owner}](#{_slug(owner)})"
        else:
            continue
        text = detail.name if detail.default == default else detail.default
        # An option without its value; the options of a mapping together.
        text = re.sub(r"^`(-\w, )?(--[\w-]+).*`$", r"`\2`", re.sub(r"^`(\w+)\.\w+`$", r"`\1`", text))
        above.setdefault(link, {})[text] = None
    seen.update({detail.alone: (name, detail.default) for detail in own})
    lines = [
        f"{link}: {'all' if len(names) == len(of_all) > 2 else ', '.join(names)}."
        for link, names in above.items()
    ]
    return "\n\n".join(filter(None, (_details(own), " ".join(lines))))


def _details(details: Sequence[_Detail]) -> str:
    """Return a list; what differs by the name alone is one item."""
    items: dict[tuple[str, str], list[_Detail]] = {}
    for detail in details:
        same = (detail.type, detail.meaning) if detail.meaning else (detail.name, "")
        items.setdefault(same, []).append(detail)
    return "\n".join(
        f"- {', '.join(detail.default or detail.name for detail in same)}"
        + (f" ({same[0].type})" if same[0].type else "")
        + (f": {same[0].meaning}" if same[0].meaning else "")
        for same in items.values()
    )


def _python(page: Path, names: str) -> str:
    """Return sections on functions, classes and modules.

    A line has a name, and its members: `*` for all public ones, `-` without the call of a class, which is never called.
    Functions with the same text have one section.
    """
    sections: dict[str, list[tuple[str, str]]] = {}
    for line in names.splitlines():
        title, call, about = _object(*line.split())
        sections.setdefault(about, []).append((title, call))
    parts = []
    for about, same in sections.items():
        titles, calls = zip(*same, strict=True)
        heads = [f"### {', '.join(titles)}"] * bool(titles[0])
        fences = ["```py\n" + "\n".join(calls) + "\n```"] * bool(calls[0])
        parts.append("\n\n".join(filter(None, [*heads, *fences, about])))
    return "\n\n".join(parts)


def _object(path: str, *members: str) -> tuple[str, str, str]:
    """Return the title of an object, its call, and its text with its members; a module has no title and no call."""
    value = pkgutil.resolve_name(path)
    if "*" in members:
        members = tuple(getattr(value, "__all__", ())) or tuple(
            name for name, member in vars(value).items() if name[0] != "_" and _is_documented(member)
        )
    listed = [_member(name, inspect.getattr_static(value, name), value) for name in members if name != "-"]
    if isinstance(value, types.ModuleType):
        return "", "", "\n\n".join((_markdown(value.__doc__), *listed))
    signature, about = ("", _markdown(value.__doc__)) if "-" in members else _described(value, 88 - len(path))
    call = ("class " if inspect.isclass(value) else "") + path + signature
    return path.rpartition(".")[2], call, "\n\n".join(filter(None, (about, *listed)))


def _is_documented(member: object) -> bool:
    kinds = (types.FunctionType, property, cached_property, classmethod, staticmethod)
    return isinstance(member, kinds) and bool(member.__doc__)


def _member(name: str, member: Any, owner: Any) -> str:
    """Return an item of a list: a property, a method, or a function or an error of a module."""
    about = _markdown(member.__doc__)
    getter = member.fget if isinstance(member, property) else getattr(member, "func", None)
    if getter is not None:
        head = f"{name}: {inspect.signature(getter).return_annotation}"
    elif inspect.isclass(member):
        head = f"{name}({member.__base__.__name__})"
    else:
        signature, about = _described(getattr(owner, name), 1_000)
        head = name + signature
    return f"- `{head}`: {about}" if "\n" not in about else f"- `{head}`\n\n{textwrap.indent(about, '  ')}"


class _Words(str):
    """An annotation in the words of the code."""

    __slots__ = ()
    __repr__ = str.__str__


def _described(function: Callable[..., Any], width: int) -> tuple[str, str]:
    """Return the parameters of a call, one a line where they are longer than the width, and its text.

    Where the text describes all of several parameters, types and defaults stand there alone.
    """
    about = _markdown(function.__doc__)
    if getattr(function, "_is_protocol", False):
        return "(Protocol)", about
    signature = inspect.signature(function)
    parameters: dict[str, str] = {}
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not any(
            text[0] == "*" for text in parameters.values()
        ):
            parameters["*"] = "*"
        if parameter.name != "self":
            # The text of a function or an object that is a default has its address in memory.
            if isinstance(parameter.annotation, str):
                parameter = parameter.replace(annotation=_Words(parameter.annotation))
            parameters[parameter.name] = re.sub(r"<(function|object) .*>", "...", str(parameter))
    returned = signature.return_annotation
    after = "" if inspect.isclass(function) or returned is signature.empty else f" -> {returned}"
    items = re.findall(r"^- ((?:`\w+`(?:, )?)+): ", about, re.MULTILINE)
    named = {name for item in items for name in re.findall(r"\w+", item)}
    if len(parameters) > _FEW and {*parameters} - {"*"} <= named:
        for item in items:
            typed = re.sub(r"`(\w+)`", lambda name: f"`{parameters.get(name[1], name[1])}`", item)
            typed = typed.replace(" | None = None", " = None")  # the page says that None is allowed there
            about = about.replace(f"- {item}: ", f"- {typed}: ", 1)
        kinds = ((one.name, one.kind) for one in signature.parameters.values())
        first = [
            "*" * (kind == 2) + name for name, kind in kinds if kind < 3 and name != "self"
        ]  # by position
        return f"({', '.join([*first, '...'])}){after}", about
    short = f"({', '.join(parameters.values())}){after}"
    if len(short) > width:
        short = "(\n    " + ",\n    ".join(parameters.values()) + f",\n){after}"
    return short, about


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
    if section[1] == "Raises":  # the page has a section on errors, and messages say the rest
        return f"**Raises:** {', '.join(re.match('(`.*?`): ', line)[1] for line in lines)}.\n\n"
    return f"**{section[1]}:**\n\n" + "".join(f"- {line}\n" for line in lines) + "\n"


def _names(names: re.Match[str]) -> str:
    return ", ".join(f"`{name}`" for name in names[1].split(", ")) + ": "


def _cold_users(entry: Entry[Any]) -> str:
    answer = cold_answer(entry.cls)
    return "" if answer == "popularity" else f"Cold users get: {answer}."


def _parameters(kind: str, entry: Entry[Any]) -> list[_Detail]:
    """Return the parameters of a component, with defaults as one writes them: in a metric's name, or in YAML."""
    found = []
    for parameter in parameters_of(entry.cls):
        if parameter.type == "mapping" and not parameter.description:
            continue  # its keys follow
        text = as_yaml(parameter.default)
        is_given = parameter.required or parameter.type == "mapping"
        found.append(
            _Detail(
                f"`{parameter.name}`",
                ""
                if isinstance(parameter.default, bool)
                else _type(parameter.type, "" if is_given else text) + ", required" * parameter.required,
                "" if is_given else f"`{parameter.name}{'=' if kind == 'metrics' else ': '}{text}`",
                parameter.description,
            )
        )
    return found


def _type(text: str, default: str = "") -> str:
    """Return the type of a parameter, less what its default shows; of several texts as `a, b or c`."""
    text = text.replace("collections.abc.Mapping[str, Any]", "mapping").replace("|", "or")
    text = re.sub(r"^text( or null)? length >= 1$", r"text\1", text)
    if default == "null":
        text = text.replace(" or null", "")
    elif default and " or " not in text:
        shown = (
            "integer" if default.lstrip("-").isdigit() else "number" if re.match(r"-?\d", default) else "text"
        )
        text = re.sub(rf"^{shown}\s*", "", text)
    if re.fullmatch(r'"[^"]*"( or ("[^"]*"|null))*', text):
        *first, last = text.replace('"', "").split(" or ")
        return f"{', '.join(first)} or {last}" if first else last
    return text


def _key(key: ConfigKey, shown: str) -> str:
    """Return an item of a list; an example only of what has a form that neither its type nor the YAML shows."""
    name = key.path.rpartition(".")[2]
    is_plain = key.default in ("true", "false") or (key.type == "mapping" and key.is_section)
    is_shown = key.type in ("integer", "number", "text") and key.default not in ("", "required")
    about = [] if is_plain or is_shown else [key.type]
    if key.default not in ("", "{}", "[]"):
        about.append("required" if key.default == "required" else f"default `{key.default}`")
    has_form = re.search("text|list|any", key.type) and not re.search(rf"\b{re.escape(name)}:", shown)
    if key.example and not key.is_section and has_form:
        about.append(f"for example `{name}: {key.example}`")
    facts = "; ".join(filter(None, about))
    return f"- `{key.path}`: {key.description}" + (f" *({facts})*" if facts else "")


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines)


def _write_vega() -> None:
    """Write the chart library of the page anew, below the licences of its parts."""
    import vl_convert

    licences = VEGA.read_text().partition("*/")[0]
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").replace("</script", "<\\/script")
    VEGA.write_text(f"{licences}*/\n(() => {{\n{script}\n}})();\n")


def main(arguments: list[str]) -> int:
    """Write the stale pages, or with ``--check`` return 1 if there are any."""
    if arguments not in ([], ["--check"], ["--vega"]):
        print("usage: python docs/generate.py [--check | --vega]")
        return 2
    if arguments == ["--vega"]:
        _write_vega()
        return 0
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
