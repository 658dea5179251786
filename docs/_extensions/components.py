"""Directives that write the reference of components, of the config and of other libraries from the code, at each build.

`{components} metrics` describes every registered metric (or model, dataset, filter, split, segment) by its docstring
and its parameters, and `{component-index} metrics` lists their names. `{config-keys} gate` has every key of a section
of a config with its type, default, description and an example. `{check} EV101` has the texts of a
check, `{check-index}` a table of all. `{profiles}` has the conventions of the libraries that
`score --as` knows.
"""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

from config_keys import ConfigKey, config_keys
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from evalplugin.cli.list import registry_of
from evalplugin.components.parameters import Parameter, parameters_of
from evalplugin.components.registry import Entry
from evalplugin.features.checks import CHECKS, check_of
from evalplugin.features.checks.base import of_data, of_models
from evalplugin.lists.profiles import EVERY_RATING, PROFILES
from evalplugin.models.base import cold_answer

__all__ = ["setup"]


class Components(SphinxDirective):
    """Every registered component of one kind."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return a section for each component."""
        kind = self.arguments[0]
        text = "\n\n".join(
            f"({_label(kind, entry.name)})=\n## {entry.name}\n\n"
            f"{_markdown(entry.cls.__doc__ or '')}\n\n{_cold_users(kind, entry)}{_parameters(parameters_of(entry.cls))}"
            for entry in _own(kind)
        )
        return self.parse_text_to_nodes(text, allow_section_headings=True)


class ComponentIndex(SphinxDirective):
    """The names of every registered component of one kind, each with what it is."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return a table."""
        kind = self.arguments[0]
        rows = [(f"[`{entry.name}`](#{_label(kind, entry.name)})", entry.summary) for entry in _own(kind)]
        return self.parse_text_to_nodes(_table((kind.removesuffix("s"), "what it is"), rows))


class ConfigKeys(SphinxDirective):
    """Every key of some sections of a config."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return a definition list."""
        keys = (key for section in self.arguments[0].split() for key in config_keys(section))
        return self.parse_text_to_nodes("\n".join(map(_definition, keys)))


_LOOKS_AT = {
    "data": "the data, before anything is fitted",
    "models": "the models on a sample of the data, by `evalplugin validate --data`",
    "results": "the results",
}


def _kind_of(code: str) -> str:
    return "data" if code in of_data else "models" if code in of_models else "results"


class CheckTexts(SphinxDirective):
    """``{check} EV101``: when a check finds something, why it matters, what to do."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the page's paragraphs."""
        check = check_of(self.arguments[0])
        kind = _LOOKS_AT[_kind_of(check.code)]
        parts = {
            f"A check of {kind}.": check.rule,
            "Why it matters.": check.why,
            "Source.": check.source,
            "What to do.": check.remedy,
        }
        return self.parse_text_to_nodes("\n\n".join(f"**{head}** {text}" for head, text in parts.items()))


class CheckIndex(SphinxDirective):
    """``{check-index}``: a table of all checks."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        rows = [
            (f"[{code}]({code}.md)", check.title, _kind_of(code)) for code, check in sorted(CHECKS.items())
        ]
        return self.parse_text_to_nodes(_table(("code", "finds", "looks at"), rows))


class Profiles(SphinxDirective):
    """The conventions of other libraries, as `score --as` reproduces them."""

    def run(self) -> list[nodes.Node]:
        """Return a table of the libraries, and the names of their metrics for each."""
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
            names = [(f"`{theirs}`", f"`{_without_cutoff(ours)}`") for theirs, ours in one.metrics.items()]
            differs = "\n".join(f"- {reason}" for reason in one.differs)
            parts.append(
                f":::{{dropdown}} {one.library}: names of metrics\n\n{_table(('there', 'here'), names)}\n\n"
                f"Not reproduced:\n\n{differs}\n\n[Source]({one.source})\n:::"
            )
        return self.parse_text_to_nodes("\n\n".join(parts))


def _without_cutoff(name: str) -> str:
    """Return a metric's name without a cutoff that is beyond every list."""
    return re.sub(r"@\d{6,}$", "", name)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives."""
    app.setup_extension("sphinx.ext.autodoc")
    app.add_directive("components", Components)
    app.add_directive("component-index", ComponentIndex)
    app.add_directive("config-keys", ConfigKeys)
    app.add_directive("check", CheckTexts)
    app.add_directive("check-index", CheckIndex)
    app.add_directive("profiles", Profiles)
    docstrings = _PropertyDocstrings()
    app.connect("autodoc-process-docstring", docstrings.keep, priority=400)
    app.connect("autodoc-process-docstring", docstrings.restore, priority=600)
    app.connect("doctree-read", _without_mail)
    return {"parallel_read_safe": True}


def _without_mail(app: Sphinx, doctree: nodes.document) -> None:
    """Make text of the e-mail addresses that docutils sees in names such as ndcg@10."""
    for reference in list(doctree.findall(nodes.reference)):
        if reference.get("refuri", "").startswith("mailto:"):
            reference.replace_self(nodes.Text(reference.astext()))


class _PropertyDocstrings:
    """Docstrings of properties as they are: napoleon takes the words before a colon in their first line for a type."""

    def __init__(self) -> None:
        self._kept: dict[str, list[str]] = {}

    def keep(self, app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
        """Keep a docstring, before napoleon reads it."""
        if what == "property":
            self._kept[name] = lines.copy()

    def restore(
        self, app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
    ) -> None:
        """Put it back afterwards."""
        if what == "property":
            lines[:] = self._kept.pop(name)


def _own(kind: str) -> list[Entry[Any]]:
    return [entry for entry in registry_of(kind) if entry.is_own]


def _label(kind: str, name: str) -> str:
    return f"{kind.removesuffix('s')}-{name.replace('.', '-').lower()}"


def _markdown(docstring: str) -> str:
    """Return a docstring as Markdown: doctests in fences; for whom it is undefined, and the source, as paragraphs."""
    text = re.sub(r"\s(Undefined)(?=\s)", r"\n\n**\1**", inspect.cleandoc(docstring), count=1)
    parts = re.sub(r"^Source:", "**Source:**", text, flags=re.MULTILINE).split("\n\n")
    return "\n\n".join(f"```pycon\n{part}\n```" if part.startswith(">>>") else part for part in parts)


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
            else _code(parameter.default),
            parameter.description,
        )
        for parameter in parameters
    ]
    return _table(("parameter", "type", "default", "meaning"), rows)


def _definition(key: ConfigKey) -> str:
    about = [key.type]
    if key.default:
        about.append("required" if key.default == "required" else f"default `{key.default}`")
    if key.example and not key.is_section:
        name = key.path.rpartition(".")[2]
        about.append(f"for example `{name}: {key.example}`")
    facts = "; ".join(filter(None, about))
    return f"`{key.path}`\n: {key.description}\n" + (f"  \\\n  *{facts}*\n" if facts else "")


def _code(value: object) -> str:
    return f"`{json.dumps(value)}`"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines)
