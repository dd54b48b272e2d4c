"""The cluster's settings in force: checked, with history and audit through the store."""

import asyncio
import re
from collections.abc import Callable

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import Conflict, Refused, Unreadable
from llmgw.control.feed import Feed
from llmgw.model.check import check_settings
from llmgw.model.faulty import Faulty
from llmgw.model.feed import SETTINGS
from llmgw.model.gateway import GatewayConfig
from llmgw.model.record import Record
from llmgw.model.settings import LEAST_RECONNECT, MOST_RECONNECT, NodeSettings, Settings
from llmgw.model.written import read_plain
from llmgw.store.interface import Store, StoredSettings

CLUSTER = "cluster"
"""Id of the whole settings in the topic `settings`."""
GATEWAY = "gateway"
"""Id of the gateways' part of them."""

_PATH = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")


class LiveSettings:
    """The newest settings; whatever reads them here acts on a change without a restart.

    Args:
        store: where they are kept.
        clock: the time of a change.
        feed: marked at each change.
    """

    def __init__(self, store: Store, clock: Clock, feed: Feed) -> None:
        self._store = store
        self._clock = clock
        self._feed = feed
        self._current = StoredSettings(version=0, settings=Settings())
        self._listeners: list[Callable[[], None]] = []
        self._writing = asyncio.Lock()
        feed.serve(SETTINGS, lambda: (CLUSTER, GATEWAY), self._record)

    @property
    def current(self) -> StoredSettings:
        """Return the settings in force and their version."""
        return self._current

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change; it must neither block nor raise."""
        self._listeners.append(listener)

    async def load(self) -> None:
        """Read the newest settings from the store."""
        stored = await self._store.settings()
        if stored != self._current:
            self._take(stored)

    async def put(
        self, path: str, value: object, *, actor: str, expected: int | None = None
    ) -> StoredSettings:
        """Change one setting or one branch, named by its dotted path.

        Args:
            path: `link.lost_after`; empty for the whole tree.
            value: as JSON gives it; None puts the default back.
            actor: who changes it.
            expected: the version that the actor saw; None: whatever is there.

        Raises:
            Unreadable: no such setting, or the value does not fit; `Faulty` says every problem.
            Refused: the setting can't be changed.
            Conflict: the settings are not at `expected`.
        """
        async with self._writing:
            tree = msgspec.to_builtins(self._current.settings)
            changed = value if not path else _with(tree, path, value)
            settings = read_plain(changed, Settings, "settings", meaning=check_settings)
            return await self._write(settings, actor=actor, expected=expected)

    async def replace(
        self, settings: Settings, *, actor: str, expected: int | None = None
    ) -> StoredSettings:
        """Put a whole tree in force; raises as `put` does."""
        async with self._writing:
            return await self._write(settings, actor=actor, expected=expected)

    def for_gateways(self) -> GatewayConfig:
        """Return what every gateway is told of the settings."""
        settings = self._current.settings
        return GatewayConfig(
            version=self._current.version,
            stopped=settings.serving.stopped,
            request_body_bytes=settings.gateway.request_body_bytes,
            connect_timeout=settings.gateway.connect_timeout,
            first_byte_timeout=settings.gateway.first_byte_timeout,
            idle_timeout=settings.gateway.idle_timeout,
            client_timeout=settings.gateway.client_timeout,
            held_most=settings.gateway.held_most,
            held_for=settings.gateway.held_for,
            queue_most=settings.gateway.queue_most,
            queue_for=settings.gateway.queue_for,
            replica_requests=settings.gateway.replica_requests,
            comment_period=settings.gateway.comment_period,
            replica_connections=settings.gateway.replica_connections,
            tls_names=settings.gateway.tls_names,
            held_bytes=settings.gateway.held_bytes,
        )

    def for_node(self) -> NodeSettings:
        """Return what every agent is told of the settings."""
        settings = self._current.settings
        return NodeSettings(
            version=self._current.version,
            heartbeat_interval=settings.link.heartbeat_interval,
            engines=dict(settings.engines),
            dcgm_exporter=settings.discovery.dcgm_exporter,
            reconnect_within=reconnect_within(settings.reconcile.settling),
        )

    async def _write(
        self, settings: Settings, *, actor: str, expected: int | None
    ) -> StoredSettings:
        before = self._current
        if expected is not None and expected != before.version:
            raise Conflict(
                f"the settings are at version {before.version}, not {expected}",
                hint="read them again and repeat the change",
            )
        if settings.cluster.name != before.settings.cluster.name:
            raise Refused(
                "cluster.name stands in every certificate of the cluster and can't be changed",
                hint="a cluster of another name is a new state directory",
            )
        problems = check_settings(settings)
        if problems:
            raise Faulty("settings", problems)
        if settings == before.settings:
            return before
        stored = await self._store.put_settings(
            settings, expected=before.version, actor=actor, at=self._clock.now()
        )
        self._take(stored)
        return stored

    def _take(self, stored: StoredSettings) -> None:
        gateways_before = self.for_gateways()
        self._current = stored
        self._feed.mark(SETTINGS, CLUSTER)
        if msgspec.structs.replace(gateways_before, version=stored.version) != self.for_gateways():
            self._feed.mark(SETTINGS, GATEWAY)
        for listener in self._listeners:
            listener()

    def _record(self, object_id: str) -> Record | None:
        if object_id == CLUSTER:
            return self._current
        return self.for_gateways() if object_id == GATEWAY else None


def _with(tree: object, path: str, value: object) -> object:
    """Return the tree with the value at a dotted path; None there means the default."""
    if not _PATH.fullmatch(path):
        raise Unreadable(
            f"{path!r} is not a path of a setting", hint="write it like link.lost_after"
        )
    *parents, last = path.split(".")
    here = tree
    for step in parents:
        here = here.get(step) if isinstance(here, dict) else None
        if not isinstance(here, dict):
            raise Unreadable(f"{path}: no such setting", hint=f"{step!r} holds no settings")
    if not isinstance(here, dict):
        raise Unreadable(f"{path}: no such setting")
    if value is None:
        here.pop(last, None)
    else:
        here[last] = value
    return tree


def reconnect_within(settling: float) -> float:
    """Return how soon agents have to be back for a control plane that waits so long for them."""
    return min(MOST_RECONNECT, max(LEAST_RECONNECT, settling * 2 / 3))
