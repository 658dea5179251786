"""Redaction: texts and nested values with ``***`` in place of their credentials."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from evalplugin.base.libraries import yaml

_HIDDEN = "***"
# Passwords may hold "/" and "@"; but in http://host:8080/a@b the part behind the colon is a port.
_USERINFO = re.compile(r"(?<=://)(?:[^\s/:@'\"]*:(?!\d+/)[^\s'\"]*|[^\s/?#'\"]+)@")
# Of a URI that has become a path, which has one slash; models:/NAME@ALIAS has no colon in it.
_USERINFO_OF_PATH = re.compile(r"(?<=:/)[^\s/:@'\"]+:(?!\d+/)[^\s'\"]*@")
_QUERY = re.compile(
    r"(?i)(?<=[?&;])([\w-]*(?:password|passwd|pwd|token|secret|(?:api|secret|private)_?key|access_?key(?:_?id)?|sig"
    r"|signature|credential)=)[^&\s'\"]+"
)
# Of a URI that is known to be one: more names, as nothing else of it is meant.
_QUERY_VALUE = re.compile(
    r"(?i)[?&;][\w-]*(?:key|key_?id|secret|token|password|passwd|pwd|sig|signature|credentials?"
    r"|credentials_base64|odbc_connect)=([^&\s]+)"
)
# The end of a key decides: max_tokens is a number, auth_token is not.
_SECRET_KEY = (
    r"(?:[\w.-]*(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key"
    r"|credentials?|authorization|auth))"
)
# Compiled at its first use, as that takes as long as all others together.
_ASSIGNED = (
    rf"(?im)(\b{_SECRET_KEY}\b['\"]?[ \t]*[:=][ \t]*)(?!['\"]?(?:\*\*\*|\$\{{))"
    r"(\"[^\"\n]*\"|'[^'\n]*'|(?:bearer|basic|digest)[ \t]+[^\s'\",]+|(?![\[{\"'|>\s])[^\s,}\]#]+)"
)
_OPTION = re.compile(rf"(?i)--?{_SECRET_KEY}")
_PASSWORD = re.compile(r"://[^\s/:@'\"]*:(?!\d+/)([^\s'\"]+)@")
_BEARER = re.compile(r"(?i)\b(bearer[ \t]+)[\w.~+/=-]{12,}")
# Tokens of a known form: GitHub, GitLab, Slack, OpenAI, AWS, Databricks, Google, signed tokens.
_TOKEN = re.compile(
    r"\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abposr]-[\w-]{10,}|sk-[\w-]{20,}|AKIA[0-9A-Z]{16}"
    r"|dapi[0-9a-f]{32}|AIza[\w-]{30,}|hf_\w{20,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)"
)
_WEBHOOK = re.compile(
    r"(https://(?:hooks\.slack\.com|discord(?:app)?\.com/api/webhooks|[\w.-]+\.webhook\.office\.com))/[^\s'\",\]}]+"
)
_PLACEHOLDER = re.compile(r"\$\{\w+\}")
_SECRET_NAME = re.compile(rf"(?i){_SECRET_KEY}")
_MIN_LENGTH = 4  # characters: hiding anything shorter would spoil every text
# From this length on a secret is hidden inside of words too; a shorter one, such as "postgres", may be part of a URL.
_MIN_INSIDE = 12
_MIN_NAMED = 8  # characters: shorter variables and lines are hidden only if they are registered

_registered: set[str] = set()


def register_secret(value: str) -> None:
    """Redact a value in every text from now on, if it has at least four characters."""
    _registered.add(value)


def register_secrets(values: Mapping[str, Any]) -> None:
    """Redact from now on the secrets of a config: by their key, by the option before them, or in a URL.

    They are hidden too where an error of another library repeats them. Of the URL of a webhook, the path and the query
    are secret, as they often are the credential; of an address of apprise, all behind the scheme.
    """
    _map_nested(values, _register_all, lambda text: _register_encoded(_PASSWORD.findall(text)))
    notify = values.get("notify")
    if isinstance(notify, Mapping):
        _map_nested([notify.get("url"), notify.get("apprise")], _register_all, _register_address)


def register_uri(uri: str) -> None:
    """Redact from now on the user, the password and the signature that a URI names."""
    scheme, slashes, rest = uri.partition("://")
    if not slashes:
        scheme, rest = "", uri
    if scheme.lower() in ("http", "https"):  # whose paths may have a colon and an @
        rest = re.split(r"[/?#]", rest, maxsplit=1)[0]
    user, _, place = rest.rpartition("@")
    secrets = _QUERY_VALUE.findall(uri)
    if scheme.lower() not in ("sqlite", "file"):
        secrets += [user, user.partition(":")[2]]
    if not user and scheme.lower() in ("s3", "s3a", "s3n"):
        secrets.append(place.partition("/")[0].partition(":")[2])
    _register_encoded(secrets)


def has_credentials(uri: str) -> bool:
    """Return whether a URI has a password or a token in it, other than ``${NAME}``."""
    return has_password(uri) or any(map(_has_content, _QUERY_VALUE.findall(uri)))


def has_password(uri: str) -> bool:
    """Return whether a URI has a user's password in it, which may hold ``/``, other than ``${NAME}``."""
    return any(map(_has_content, _PASSWORD.findall(uri)))


def redact(text: str) -> str:
    """Return the text with ``***`` in place of every credential.

    Credentials are users and passwords in URIs, tokens of a known form, values of keys like ``password``, of
    environment variables with such names, and registered secrets.
    """
    return re.sub(_ASSIGNED, rf"\1{_HIDDEN}", redact_message(text))


def redact_message(text: str) -> str:
    """Return the text as ``redact`` does, but with the values of keys like ``password``, which messages explain."""
    if values := _secret_values():
        text = _pattern(values).sub(_HIDDEN, text)
    text = _USERINFO_OF_PATH.sub(f"{_HIDDEN}@", _USERINFO.sub(f"{_HIDDEN}@", text))
    text = _WEBHOOK.sub(rf"\1/{_HIDDEN}", text)
    text = _QUERY.sub(rf"\1{_HIDDEN}", text)
    text = _BEARER.sub(rf"\1{_HIDDEN}", text)
    return _TOKEN.sub(_HIDDEN, text)


def _secret_values() -> frozenset[str]:
    """Return the registered secrets and the values of environment variables that hold credentials."""
    named = (v for name in _secret_names(*os.environ) if len(v := os.environ.get(name, "")) >= _MIN_NAMED)
    return frozenset(v for v in (*_registered, *named) if len(v) >= _MIN_LENGTH)


@functools.lru_cache(maxsize=8)  # for each text of a run the variables are the same
def _secret_names(*names: str) -> tuple[str, ...]:
    """Return the names of environment variables that hold credentials."""
    return tuple(filter(_SECRET_NAME.fullmatch, names))


def redact_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested values with every credential hidden, those under keys like ``password`` included."""
    redacted: dict[str, Any] = _map_nested(values, lambda value: _HIDDEN, redact)
    return redacted


def redact_texts(value: Any) -> Any:
    """Return a nested value with the credentials in its texts hidden, whatever their keys are."""
    return _map_nested(value, redact_texts, redact)


def redact_yaml(text: str) -> str:
    """Return a config with every credential hidden: still the same YAML, with its comments.

    Of the URL of a webhook only the host stays, of an address of apprise nothing: the rest often is the secret.
    """
    return _redacted_yaml(text, _secret_values())


@functools.lru_cache(maxsize=8)  # every run of a bake-off has the same config
def _redacted_yaml(text: str, _secrets: frozenset[str]) -> str:
    """Return a redacted config, kept as long as the secrets are the same."""
    return redact(_without_secret_nodes(text))


@functools.lru_cache(maxsize=8)  # parsing takes long, and other texts of a bake-off may register secrets
def _without_secret_nodes(text: str) -> str:
    """Return a config without the values that are secret by the key or the option before them."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return text
    spans = {(n.start_mark.index, n.end_mark.index): n for n in _secret_nodes(root, (), set())}
    for start, end in sorted(spans, reverse=True):
        node = spans[start, end]
        host = re.match(r"https?://[^/\s@?#]+(?=/)", node.value) if isinstance(node.value, str) else None
        hidden = f"{host[0]}/{_HIDDEN}" if host else _HIDDEN
        text = f'{text[:start]}"{hidden}"{text[start + len(text[start:end].rstrip()) :]}'
    return text


def _secret_nodes(node: yaml.Node | None, path: tuple[str, ...], seen: set[int]) -> Iterator[yaml.Node]:
    """Yield the values that are secret by the key or the option before them; aliases may be cyclic."""
    if node is None or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            name = str(key.value)
            if _is_secret(name, value.value) or (
                (*path, name) == ("notify", "url") and _has_content(value.value)
            ):
                yield value
            else:
                yield from _secret_nodes(value, (*path, name), seen)
    elif isinstance(node, yaml.SequenceNode):
        before = ""
        for value in node.value:
            if (path == ("notify", "apprise") or _OPTION.fullmatch(before)) and _has_content(value.value):
                yield value
            else:
                yield from _secret_nodes(value, path, seen)
            before = value.value if isinstance(value.value, str) else ""


def _map_nested(value: Any, on_secret: Callable[[Any], Any], on_text: Callable[[str], Any]) -> Any:
    """Return nested values with a function applied to each that is secret, and another to each other text."""
    if isinstance(value, str):
        return on_text(value)
    if isinstance(value, Mapping):
        return {
            key: on_secret(inner) if _is_secret(key, inner) else _map_nested(inner, on_secret, on_text)
            for key, inner in value.items()
        }
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [
            on_secret(inner)
            if isinstance(before, str) and _OPTION.fullmatch(before) and _has_content(inner)
            else _map_nested(inner, on_secret, on_text)
            for before, inner in zip(["", *value], value, strict=False)
        ]
    return value


def _register_encoded(values: Sequence[str]) -> None:
    """Redact from now on values of a URI, as they are and decoded."""
    _register_all(values)
    _register_all([unquote(value) for value in values])


def _register_address(text: str) -> None:
    rest = re.sub(r"^(https?://[^/?#\s]+|[\w+.-]+://)", "", text)
    if len(rest) >= _MIN_NAMED and not _PLACEHOLDER.search(rest):
        register_secret(rest)


def _register_all(value: Any) -> None:
    if isinstance(value, str):
        if not _PLACEHOLDER.search(value):
            register_secret(value)
    elif isinstance(value, Sequence) and not isinstance(value, bytes):
        for inner in value:
            _register_all(inner)


def _is_secret(key: object, value: object) -> bool:
    """Return whether a value is secret by its key; a placeholder alone has nothing to hide."""
    return bool(_SECRET_NAME.fullmatch(str(key))) and _has_content(value)


def _has_content(value: object) -> bool:
    if value is None or isinstance(value, (Mapping, bool)):
        return False
    return not isinstance(value, str) or bool(_PLACEHOLDER.sub("", value).strip())


@functools.lru_cache(maxsize=8)
def _pattern(values: frozenset[str]) -> re.Pattern[str]:
    """Return a pattern of the values: as they are, as URLs, JSON and Python write them, and each line of several."""
    forms = {form for value in values for form in _forms(value)}
    parts = [
        re.escape(form) if len(form) >= _MIN_INSIDE else rf"(?<![A-Za-z0-9]){re.escape(form)}(?![A-Za-z0-9])"
        for form in sorted(forms, key=len, reverse=True)
    ]
    return re.compile("|".join(parts))


def _forms(value: str) -> Iterable[str]:
    lines = [line for line in value.splitlines() if len(line.strip()) >= _MIN_NAMED]
    for text in (value, value.strip(), *lines):
        if len(text) >= _MIN_LENGTH:
            yield text
            yield from (quote(text), quote(text, safe=""), quote_plus(text))
            yield from (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1])
