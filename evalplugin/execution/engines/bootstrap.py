"""The first functions of a call on another machine: they need nothing but Python there, and report what it lacks."""

from __future__ import annotations

from typing import Any

# These functions are sent to a node of Ray by their code, and so use only names of this module.


def on_node(
    versions: dict[str, str], setup: bytes, call: dict[str, Any], place: str = ""
) -> tuple[str, Any, str]:
    """Return what ``remote.run_call`` returns, and the place; or ``problem`` and why it cannot run.

    Args:
        versions: By the name of what the driver and the node must share.
        setup: Pickled, so that a node without evalplugin can receive it.
        call: The other arguments of ``remote.run_call``.
        place: The name of the node, for messages; empty: its host name.
    """
    import pickle
    import platform
    import socket

    place = place or socket.gethostname()
    if platform.python_version() != versions["Python"]:
        text = f"Python is {platform.python_version()} there and {versions['Python']} here"
        return "problem", f"{text}: install the same on every node", place
    try:
        from evalplugin.execution.engines import remote
    except Exception as error:  # noqa: BLE001 - whatever an installation lacks
        text = f"evalplugin {versions['evalplugin']} is not installed there: {error!r}"
        return "problem", f"{text}; install the same as here, with the same extras", place
    return (*remote.run_call(versions, pickle.loads(setup), **call), place)


def on_ray_node(
    versions: dict[str, str],
    setup: bytes,
    call: bytes | None,
    shared: list[tuple[str, Any]],
) -> tuple[str, Any, str]:
    """Return what ``on_node`` returns, in a task of Ray.

    Args:
        versions, setup, call: As of ``on_node``.
        shared: Names of the arguments that calls share, with references to their content.
    """
    import ray

    place = f"{ray.util.get_node_ip_address()} ({ray.get_runtime_context().get_node_id()[:6]})"
    refs = dict(shared)
    arguments = {"call": call, "shared": list(refs), "fetch": lambda key: ray.get(refs[key])}
    return on_node(versions, setup, arguments, place)
