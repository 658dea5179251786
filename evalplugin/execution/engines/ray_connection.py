"""Connections to Ray clusters, and a check that the head node still answers."""

from __future__ import annotations

import importlib
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from evalplugin.base.errors import EXIT_FAILED, EngineError
from evalplugin.base.signals import restored_signals

_CONNECT_SECONDS = 5.0  # within which something must answer at the address
# Ray ends the process, without an exception, when the head node has not answered for so long.
_RAY_SECONDS, _RAY_SECONDS_DEFAULT = "RAY_gcs_rpc_server_reconnect_timeout_s", 60.0
_ours: str | None = None  # the address to which this module has connected the process
_HELP = "see `evalplugin describe engine ray`"


@dataclass
class Connection:
    """A connection to a cluster."""

    ray: Any  # the module
    head: str  # HOST:PORT of the head node
    is_lost: bool = False
    _answered: float = field(default_factory=time.monotonic)  # the last time that it did

    def check_answers(self) -> None:
        """Ask whether the head node answers now.

        Raises:
            EngineError: It has not for two thirds of the time after which Ray ends this process.
        """
        try:
            _reach(self.head)
        except OSError:
            limit = float(os.environ.get(_RAY_SECONDS) or _RAY_SECONDS_DEFAULT) * 2 / 3
            silent = time.monotonic() - self._answered
            if silent > limit:
                self.is_lost = True
                error = EngineError(
                    f"engine ray: the head node of the cluster, {self.head}, has not answered for {silent:.0f} s: it "
                    f"was lost, and with it all tasks that were running; start a cluster again"
                )
                error.exit_code = EXIT_FAILED  # what was asked for is right
                raise error from None
        else:
            self._answered = time.monotonic()


@contextmanager
def connected(address: str) -> Iterator[Connection]:
    """Yield a connection to a cluster; an existing connection of this process is used and stays open.

    Raises:
        EngineError: There is no cluster at the address, or this process is connected to another one.
    """
    global _ours
    token_mode = os.environ.get("RAY_AUTH_MODE")  # which Ray sets where it starts a cluster
    # Of the models' processes, not of ours: Ray would set what they see.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray: Any = importlib.import_module("ray")
    importlib.import_module("ray.util.scheduling_strategies")
    if ray.is_initialized():
        if address not in ("auto", _ours):
            raise EngineError(
                "engine ray: this process is connected to a Ray cluster: take address: auto, or call ray.shutdown()"
            )
        yield Connection(ray, _head(ray, address))
        return
    target = _target(address)
    if target != "local":
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
    _ours = address
    connection = Connection(ray, _head(ray, target))
    try:
        yield connection
    finally:
        _ours = None
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


def _target(address: str) -> str:
    """Return HOST:PORT, ray://HOST:PORT or local."""
    if address != "auto":
        return address
    # Private, but ray.init waits for minutes for a cluster that it remembers and that is gone: so it is asked first
    # whether the address answers. Held by test_remembered_cluster_that_is_gone_is_refused_at_once.
    from ray._private.services import canonicalize_bootstrap_address_or_die

    try:
        return os.environ.get("RAY_ADDRESS") or str(canonicalize_bootstrap_address_or_die("auto"))
    except Exception:  # noqa: BLE001 - whatever it finds, or not
        raise EngineError(
            f"engine ray: no Ray cluster runs on this machine and RAY_ADDRESS is not set (address: auto); {_HELP}"
        ) from None


def _head(ray: Any, address: str) -> str:
    """Return HOST:PORT of the head node; with Ray Client, of its server."""
    if address.startswith("ray://"):
        return address.removeprefix("ray://")
    return str(ray.get_runtime_context().gcs_address)


def _reach(address: str) -> None:
    """Connect to HOST:PORT and close; an OSError says that nothing answers there."""
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()


def _check_answers(target: str) -> None:
    host, _, port = target.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise EngineError(
            f"engine ray: {target} is not an address of a cluster: give HOST:PORT of the head node, such as "
            f"10.0.0.1:6379, or ray://HOST:10001; http:// is for `ray job submit` alone; {_HELP}"
        )
    try:
        _reach(target.removeprefix("ray://"))
    except (OSError, OverflowError) as error:
        raise EngineError(
            f"engine ray: no response from {target} ({error}): is the cluster running, and does this machine reach "
            f"it? {_HELP[0].upper()}{_HELP[1:]}"
        ) from None


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message that is not blank; without one, the name of its type."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
