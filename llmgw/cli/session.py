"""One command's conversation with the admin API."""

import os
import time
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from llmgw.base.errors import Unreadable

if TYPE_CHECKING:
    from llmgw.client.asyncclient import AsyncClient
    from llmgw.client.oneshot import OneShot

T = TypeVar("T")


def connect(*, timeout: float = 30.0) -> "OneShot":
    """Return a client of the cluster that `--context`, the environment or the file names."""
    from llmgw.client import contexts
    from llmgw.client.oneshot import OneShot

    return OneShot(contexts.choose(os.environ), timeout=timeout)


def connect_for_long() -> "AsyncClient":
    """Return a client that stays connected, of the same cluster: for following."""
    import random

    from llmgw.base.clock import SystemClock
    from llmgw.client import contexts
    from llmgw.client.asyncclient import AsyncClient

    return AsyncClient(contexts.choose(os.environ), clock=SystemClock(), rng=random.Random())


def get(path: str, type_: type[T], /, **query: str | float | None) -> T:
    """Return what the API answers to a GET, as a record."""
    return typed(connect().get(path, query), type_, path)


def listing(topics: tuple[str, ...]) -> dict[str, list[dict[str, Any]]]:
    """Return the records of some topics, all of one moment, as decoded JSON."""
    found: dict[str, list[dict[str, Any]]] = connect().get("/list", {"topics": topics})["topics"]
    return found


def typed(value: object, type_: type[T], where: str) -> T:
    """Return decoded JSON as a record.

    Raises:
        Unreadable: the control plane answers in another shape: its version is another.
    """
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        raise Unreadable(
            f"{where}: the control plane's answer can't be read: {error}",
            hint="compare `llmgw version` here and on the control plane",
        ) from error


def now() -> float:
    """Return wall-clock seconds, for ages in tables."""
    return time.time()
