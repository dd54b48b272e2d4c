"""A store in memory, with a store's errors and audit, for tests of what stands on one."""

from collections.abc import Sequence

import msgspec

from llmgw.base.errors import Conflict, NotFound, Refused
from llmgw.model.catalog import CatalogEntry, Model
from llmgw.model.events import AuditEntry, Event
from llmgw.model.hardware import HardwareChange
from llmgw.model.keys import JoinToken, Key, Token, UsageReport, UsageRow
from llmgw.model.settings import Settings, SettingsChange
from llmgw.store.interface import StoredCertificate, StoredNode, StoredSettings, StoredTraffic


class MemoryStore:
    """Everything durable, until the test ends."""

    def __init__(self) -> None:
        self.term = 0
        self.stored = StoredSettings(version=0, settings=Settings())
        self.changes: list[SettingsChange] = []
        self.catalog: dict[str, list[CatalogEntry]] = {}
        self.present: set[str] = set()
        self.key_rows: dict[str, Key] = {}
        self.token_rows: dict[str, Token] = {}
        self.join_tokens: dict[str, JoinToken] = {}
        self.node_rows: dict[str, StoredNode] = {}
        self.certificates: dict[str, StoredCertificate] = {}
        self.secrets: dict[str, bytes] = {}
        self.usage_rows: list[UsageRow] = []
        self.traffic_rows: dict[str, StoredTraffic] = {}
        self.event_rows: list[Event] = []
        self.hardware_rows: dict[str, HardwareChange] = {}
        self.audited: list[AuditEntry] = []

    async def open(self, holder: str) -> int:
        return await self.take_term(0)

    async def close(self) -> None:
        return

    async def take_term(self, at_least: int) -> int:
        self.term = max(self.term, at_least) + 1
        return self.term

    async def settings(self) -> StoredSettings:
        return self.stored

    async def put_settings(
        self, settings: Settings, *, expected: int, actor: str, at: float
    ) -> StoredSettings:
        if expected != self.stored.version:
            raise Conflict(f"the settings are at version {self.stored.version}")
        before = _flat("", msgspec.to_builtins(self.stored.settings))
        after = _flat("", msgspec.to_builtins(settings))
        self.stored = StoredSettings(version=expected + 1, settings=settings)
        for path in sorted({*before, *after}):
            if before.get(path) != after.get(path):
                self.changes.append(
                    SettingsChange(
                        version=self.stored.version,
                        at=at,
                        actor=actor,
                        path=path,
                        before=before.get(path),
                        after=after.get(path),
                    )
                )
                self._audit(at, actor, "settings.put", path)
        return self.stored

    async def settings_history(
        self, path: str = "", limit: int = 100
    ) -> tuple[SettingsChange, ...]:
        wanted = [one for one in reversed(self.changes) if f"{one.path}.".startswith(path)]
        return tuple(wanted[:limit])

    async def models(self) -> tuple[CatalogEntry, ...]:
        return tuple(self.catalog[name][-1] for name in sorted(self.present))

    async def put_model(
        self, model: Model, *, expected: int | None, actor: str, at: float
    ) -> CatalogEntry:
        versions = self.catalog.get(model.name, [])
        version = versions[-1].version if model.name in self.present else 0
        if expected is not None and expected != version:
            raise Conflict(f"{model.name} is at version {version}, not {expected}")
        entry = CatalogEntry(model=model, version=len(versions) + 1, changed=at, changed_by=actor)
        self.catalog.setdefault(model.name, []).append(entry)
        self.present.add(model.name)
        self._audit(at, actor, "model.put", model.name)
        return entry

    async def remove_model(self, name: str, *, actor: str, at: float) -> None:
        if name not in self.present:
            raise NotFound(f"no model {name!r}")
        self.present.discard(name)
        self._audit(at, actor, "model.remove", name)

    async def model_history(self, name: str, limit: int = 100) -> tuple[CatalogEntry, ...]:
        return tuple(reversed(self.catalog.get(name, [])))[:limit]

    async def keys(self) -> tuple[Key, ...]:
        return tuple(sorted(self.key_rows.values(), key=lambda key: key.name))

    async def put_key(self, key: Key, *, actor: str, at: float) -> None:
        self.key_rows[key.id] = key
        self._audit(at, actor, "key.put", key.id)

    async def remove_key(self, key_id: str, *, actor: str, at: float) -> None:
        if self.key_rows.pop(key_id, None) is None:
            raise NotFound(f"no key {key_id!r}")
        self._audit(at, actor, "key.remove", key_id)

    async def tokens(self) -> tuple[Token, ...]:
        return tuple(self.token_rows.values())

    async def put_token(self, token: Token, *, actor: str, at: float) -> None:
        self.token_rows[token.id] = token
        self._audit(at, actor, "token.put", token.id)

    async def remove_token(self, token_id: str, *, actor: str, at: float) -> None:
        if self.token_rows.pop(token_id, None) is None:
            raise NotFound(f"no token {token_id!r}")
        self._audit(at, actor, "token.remove", token_id)

    async def put_join_token(self, token: JoinToken, *, actor: str, at: float) -> None:
        self.join_tokens[token.id] = token
        self._audit(at, actor, "join_token.put", f"{token.role}/{token.subject}")

    async def join_token(self, token_id: str) -> JoinToken:
        if token_id not in self.join_tokens:
            raise NotFound(f"no token {token_id!r}")
        return self.join_tokens[token_id]

    async def use_join_token(self, token_id: str, *, at: float) -> JoinToken:
        token = await self.join_token(token_id)
        if token.used is not None or token.expires <= at:
            raise Refused(f"the token {token_id!r} was used before, or it ended")
        self.join_tokens[token_id] = msgspec.structs.replace(token, used=at)
        return self.join_tokens[token_id]

    async def nodes(self) -> tuple[StoredNode, ...]:
        return tuple(self.node_rows[node] for node in sorted(self.node_rows))

    async def put_node(self, node: StoredNode) -> None:
        known = self.node_rows.get(node.id, node)
        self.node_rows[node.id] = msgspec.structs.replace(node, first_seen=known.first_seen)

    async def set_wish(self, node: str, wish: str | None, *, actor: str, at: float) -> None:
        if node not in self.node_rows:
            raise NotFound(f"no node {node!r}")
        self.node_rows[node] = msgspec.structs.replace(self.node_rows[node], wish=wish)
        self._audit(at, actor, "node.wish", node)

    async def remove_node(self, node: str, *, actor: str, at: float) -> tuple[str, ...]:
        mine = [one for one in self.certificates.values() if one.subject == node]
        if self.node_rows.pop(node, None) is None and not mine:
            raise NotFound(f"no node {node!r}")
        rows = self.hardware_rows.items()
        self.hardware_rows = {key: one for key, one in rows if one.node != node}
        for one in mine:
            self.certificates[one.serial] = msgspec.structs.replace(one, denied=at)
        self._audit(at, actor, "node.remove", node)
        return tuple(one.serial for one in mine)

    async def put_certificate(self, certificate: StoredCertificate) -> None:
        self.certificates[certificate.serial] = certificate

    async def denied(self) -> frozenset[str]:
        return frozenset(s for s, one in self.certificates.items() if one.denied is not None)

    async def secret(self, name: str, made: bytes) -> bytes:
        return self.secrets.setdefault(name, made)

    async def apply_usage(self, report: UsageReport, *, at: float) -> bool:
        """Add a report's totals as they are: a test that counts differences uses a real store."""
        self.usage_rows += [
            UsageRow(hour=at // 3600 * 3600, **msgspec.structs.asdict(one)) for one in report.totals
        ]
        return True

    async def usage(self, *, since: float, until: float) -> tuple[UsageRow, ...]:
        return tuple(
            row for row in self.usage_rows if since <= row.hour + 3600 and row.hour < until
        )

    async def traffic(self) -> tuple[StoredTraffic, ...]:
        return tuple(one for _, one in sorted(self.traffic_rows.items()))

    async def put_traffic(self, counted: Sequence[StoredTraffic]) -> None:
        self.traffic_rows |= {one.gateway: one for one in counted}

    async def add_event(self, event: Event) -> None:
        self.event_rows.append(event)

    async def events(self, *, since: float, limit: int = 1000) -> tuple[Event, ...]:
        return tuple(event for event in self.event_rows if event.at >= since)[:limit]

    async def put_hardware(self, changes: Sequence[HardwareChange], *, before: float) -> None:
        self.hardware_rows |= {one.id: one for one in changes}
        last = {one.id for one in await self.hardware_last()}
        for one in list(self.hardware_rows.values()):
            if one.until < before and one.id not in last:
                del self.hardware_rows[one.id]

    async def hardware(self, *, since: float, node: str | None) -> tuple[HardwareChange, ...]:
        rows = (one for _, one in sorted(self.hardware_rows.items()))
        return tuple(one for one in rows if one.until >= since and node in {None, one.node})

    async def hardware_last(self) -> tuple[HardwareChange, ...]:
        rows = (one for _, one in sorted(self.hardware_rows.items()))
        return tuple({(one.node, one.kind, one.subject): one for one in rows}.values())

    async def audit(self, limit: int = 100) -> tuple[AuditEntry, ...]:
        return tuple(reversed(self.audited))[:limit]

    async def put_audit(self, entry: AuditEntry) -> None:
        self.audited.append(entry)

    async def verify_audit(self) -> str | None:
        return None

    def _audit(self, at: float, actor: str, action: str, subject: str) -> None:
        self.audited.append(AuditEntry(at=at, actor=actor, action=action, subject=subject))


def _flat(path: str, value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        return {path: msgspec.json.encode(value).decode()}
    found: dict[str, str] = {}
    for name, inner in value.items():
        found |= _flat(f"{path}.{name}" if path else str(name), inner)
    return found
