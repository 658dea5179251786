"""The first function of a call on another machine: it needs nothing but Python there, and tells what is missing."""

from __future__ import annotations

from typing import Any

__all__ = ["on_node", "on_ray_node"]

# These functions are sent to the node by their code, and so use only names of their own.


def on_node(versions: dict[str, str], place: str, setup: bytes, call: dict[str, Any]) -> tuple[str, Any, str]:
    """Return what ``node.run_call`` returns for these arguments, and the place; or ``problem`` and why it cannot run.

    Args:
        versions: By the name of what the driver and the node must share.
        place: The name of the node, for messages.
        setup: Pickled, so that a node without evalplugin can receive it.
        call: The other arguments of ``node.run_call``.
    """
    import pickle
    import platform

    if platform.python_version() != versions["Python"]:
        text = f"Python is {platform.python_version()} there and {versions['Python']} here"
        return "problem", f"{text}: install the same on every node", place
    try:
        from evalplugin.execution.engines import node
    except Exception as error:  # noqa: BLE001 - whatever an installation lacks
        text = f"evalplugin {versions['evalplugin']} is not installed there: {error!r}"
        return "problem", f"{text}; install the same as here, with the same extras", place
    return (*node.run_call(versions, pickle.loads(setup), **call), place)


def on_ray_node(
    on_node: Any,
    versions: dict[str, str],
    setup: bytes,
    note: str | None,
    call: bytes | None,
    shared: list[tuple[str, Any]],
) -> tuple[str, Any, str]:
    """Return what ``on_node`` returns, in a task of Ray; ``note`` is the key under which it says where it runs."""
    import ray

    place = f"{ray.util.get_node_ip_address()} ({ray.get_runtime_context().get_node_id()[:6]})"
    if note is not None:
        # Private: Ray's public stores of values are actors, each a process more. Held by the contract of engines.
        from ray.experimental.internal_kv import _internal_kv_put

        _internal_kv_put(note, place)
    refs = dict(shared)
    arguments = {"call": call, "shared": list(refs), "fetch": lambda key: ray.get(refs[key])}
    found: tuple[str, Any, str] = on_node(versions, place, setup, arguments)
    return found
