"""Connections to Ray clusters."""

from __future__ import annotations

import importlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from evalplugin.base.errors import EngineError
from evalplugin.base.signals import restored_signals

_CONNECT_SECONDS = 5.0  # within which something must answer at the address
_HELP = "see `evalplugin describe engine ray`"


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Yield the module ``ray``, connected to a cluster; an existing connection of this process stays open.

    Raises:
        EngineError: There is no cluster at the address, or this process is connected to another one.
    """
    token_mode = os.environ.get("RAY_AUTH_MODE")  # which Ray sets where it starts a cluster
    # Of the models' processes, not of ours: Ray would set what they see.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray: Any = importlib.import_module("ray")
    importlib.import_module("ray.util.scheduling_strategies")
    if ray.is_initialized():
        if address != "auto":
            raise EngineError(
                "engine ray: this process is connected to a Ray cluster: take address: auto, or call ray.shutdown()"
            )
        yield ray
        return
    target = (os.environ.get("RAY_ADDRESS") if address == "auto" else None) or address
    if target not in ("local", "auto"):
        _check_answers(target)
    with restored_signals():
        try:
            ray.init(
                address=target,
                include_dashboard=False if target == "local" else None,
                log_to_driver=False,
                logging_level="WARNING",
            )
        except Exception as error:  # noqa: BLE001 - Ray raises errors of many kinds
            raise EngineError(
                f"engine ray: cannot connect to {address}: {type(error).__name__}: {first_line(error)}; {_HELP}"
            ) from None
    try:
        yield ray
    finally:
        with restored_signals():
            ray.shutdown()
        if token_mode is None and os.environ.pop("RAY_AUTH_MODE", None) is not None:
            _forget_tokens()


def _forget_tokens() -> None:
    """Make Ray read the environment again, for a process that goes on to a cluster without tokens.

    Ray keeps the mode and the token of the first cluster, and the next one then loses what its tasks return. The mode
    comes first: a thread of Ray's that ends later must not look for a token which is gone.
    """
    # Private: Ray has no public way to reset them. Held by test_ray_starts_on_this_machine_and_ends.
    raylet: Any = importlib.import_module("ray._raylet")
    raylet.Config.initialize("")
    raylet.AuthenticationTokenLoader.instance().reset_cache()


def _check_answers(target: str) -> None:
    host, _, port = target.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise EngineError(
            f"engine ray: {target} is not an address of a cluster: give HOST:PORT of the head node, such as "
            f"10.0.0.1:6379, or ray://HOST:10001; http:// is for `ray job submit` alone; {_HELP}"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise EngineError(
            f"engine ray: no response from {target} ({error}): is the cluster running, and does this machine reach "
            f"it? {_HELP}"
        ) from None


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message that is not blank; without one, the name of its type."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
