"""The section ``notify``: the receivers of a bake-off's outcome, and the outcomes that they receive."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from evalplugin.base.errors import DataError, did_you_mean, how_to_install
from evalplugin.config.schema import FeatureSection
from evalplugin.config.sections import Closed, accepted_by
from evalplugin.features.words import GateOutcome


def _check_address(address: str) -> None:
    """Raise if apprise is not installed, or does not know the scheme of an address."""
    try:
        from apprise import NotificationManager
    except ImportError:
        how = how_to_install("apprise", "apprise")
        raise DataError(f"needs the package apprise, which is not installed: {how}") from None
    scheme, separator, _ = address.partition("://")
    schemes = [*NotificationManager().schemas(), "http", "https"]
    if not address.startswith("${") and not (separator and scheme.lower() in schemes):
        near = did_you_mean(scheme, schemes, noun=None)
        raise DataError(f"does not begin with a scheme of apprise, such as slack:// or mailto://{near}")


class Notify(Closed):
    """The notifier: a command that gets the outcome of a bake-off as JSON on standard input, a URL by POST, or apprise.

    `${NAME}` in any of them is replaced by an environment variable, whose value is never shown.
    """

    command: list[str] | None = Field(
        default=None,
        min_length=1,
        description="Program and arguments, without a shell; it gets the outcome as JSON on standard input.",
        examples=[["python", "notify.py"]],
    )
    url: str | None = Field(
        default=None,
        description="Where the JSON is posted, such as ${WEBHOOK_URL}.",
        examples=["${WEBHOOK_URL}"],
    )
    apprise: list[Annotated[str, accepted_by(_check_address)]] | None = Field(
        default=None,
        min_length=1,
        description="Addresses of apprise (the extra `apprise`), which get outcome and reason as text.",
        examples=[["slack://${SLACK_TOKENS}"]],
    )
    on: list[Literal[GateOutcome, "done", "failure", "interrupted"]] = Field(
        default=["promote", "keep", "refuse", "done", "failure"],
        min_length=1,
        description="The gate's decision (keep: cannot_tell too); done: a bake-off without a gate has ended; failure: "
        "it could not be run, a model failed, or the winner was not registered; interrupted: by Ctrl-C or a signal.",
        examples=[["promote", "failure"]],
    )
    tries: int = Field(
        default=3,
        ge=1,
        le=10,
        description="Tries of a URL or an address; a command is run once.",
        examples=[5],
    )
    timeout_seconds: float = Field(
        default=30.0,
        gt=0,
        le=600,
        description="Of a command; of a URL to connect and for each read. Addresses of apprise have `?cto=5&rto=10`.",
        examples=[10],
    )

    @field_validator("command")
    @classmethod
    def _is_command(cls, value: list[str] | None) -> list[str] | None:
        if value is not None and not value[0].strip():
            raise ValueError(f"must begin with the name of a program, not with {value[0]!r}")
        return value

    @field_validator("url")
    @classmethod
    def _is_address(cls, value: str | None) -> str | None:
        if value is None or value.startswith("${"):
            return value
        if not value.startswith(("http://", "https://")):
            raise ValueError("must be an address that begins with https://, http:// or ${NAME}")
        try:
            host = urlsplit(value).hostname
        except ValueError:
            host = None
        if not host:
            raise ValueError("must name a host, such as https://example.org/hook")
        return value

    @property
    def texts(self) -> list[str]:
        """The texts that may hold `${NAME}`."""
        return self.command or self.apprise or [self.url or ""]

    @model_validator(mode="after")
    def _command_or_url_or_apprise(self) -> Notify:
        if [self.command, self.url, self.apprise].count(None) != 2:
            raise ValueError("needs a command, a url or apprise, one of them")
        return self


SECTIONS = (FeatureSection("notify", Notify, "nothing", may_be_empty=True),)
