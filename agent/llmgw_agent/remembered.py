"""What an agent keeps on disk about its cluster, so that a restart begins where it was."""

from pathlib import Path

import msgspec

from llmgw.base.errors import NotFound
from llmgw.base.log import get
from llmgw.base.world import Files
from llmgw.model.record import Record
from llmgw.model.settings import EngineOrder, NodeSettings

log = get(__name__)


class _Kept(Record, frozen=True, kw_only=True):
    cluster: str
    term: int = 0
    settings: NodeSettings | None = None
    control_planes: tuple[str, ...] = ()
    address: str | None = None
    chosen_name: str | None = None
    """The node's id, if a person chose it; None: it was found."""


class Remembered:
    """The highest term, the newest settings, the control planes' addresses, own address and name.

    All of it is of one cluster: what another cluster left in the same place is forgotten.
    """

    def __init__(self, path: Path, cluster: str, files: Files) -> None:
        self._path = path
        self._files = files
        self._kept = self._read(cluster)

    @property
    def term(self) -> int:
        """Return the highest term that was ever seen; 0 for none."""
        return self._kept.term

    @property
    def settings(self) -> NodeSettings | None:
        """Return the newest settings."""
        return self._kept.settings

    @property
    def engines(self) -> dict[str, EngineOrder]:
        """Return the engines that were ordered last."""
        settings = self._kept.settings
        return dict(settings.engines or {}) if settings is not None else {}

    @property
    def control_planes(self) -> tuple[str, ...]:
        """Return the addresses that a control plane told last."""
        return self._kept.control_planes

    @property
    def address(self) -> str | None:
        """Return the own address that was found last."""
        return self._kept.address

    @property
    def chosen_name(self) -> str | None:
        """Return the node's id that a person chose last; None if none was ever chosen."""
        return self._kept.chosen_name

    def saw_term(self, term: int) -> None:
        """Keep a term if it is the highest."""
        if term > self._kept.term:
            self._keep(term=term)

    def take_settings(self, settings: NodeSettings) -> NodeSettings:
        """Keep settings; what they do not say stays. Return the whole."""
        before = self._kept.settings
        whole = NodeSettings(
            version=settings.version,
            heartbeat_interval=settings.heartbeat_interval
            or (before.heartbeat_interval if before is not None else None),
            engines=settings.engines
            if settings.engines is not None
            else (before.engines if before is not None else None),
            dcgm_exporter=settings.dcgm_exporter
            if settings.dcgm_exporter is not None
            else (before.dcgm_exporter if before is not None else None),
            reconnect_within=settings.reconnect_within
            or (before.reconnect_within if before is not None else None),
        )
        if whole != before:
            self._keep(settings=whole)
        return whole

    def take_control_planes(self, addresses: tuple[str, ...]) -> None:
        """Keep the control planes' addresses."""
        if addresses != self._kept.control_planes:
            self._keep(control_planes=addresses)

    def take_address(self, address: str) -> None:
        """Keep the own address."""
        if address != self._kept.address:
            self._keep(address=address)

    def choose_name(self, name: str) -> None:
        """Keep the node's id that a person chose."""
        if name != self._kept.chosen_name:
            self._keep(chosen_name=name)

    def _keep(self, **changes: object) -> None:
        self._kept = msgspec.structs.replace(self._kept, **changes)
        try:
            self._files.write(self._path, msgspec.json.format(msgspec.json.encode(self._kept)))
        except OSError as error:
            # A full disk must not end an agent; until it is restarted it knows all the same.
            log.warning("what is known of the cluster can't be kept", error=error.strerror)

    def _read(self, cluster: str) -> _Kept:
        nothing = _Kept(cluster=cluster)
        try:
            kept = msgspec.json.decode(self._files.read(self._path), type=_Kept)
        except NotFound:
            return nothing
        except (msgspec.DecodeError, OSError) as error:
            # A control plane tells all of it again; only the guard against a stale one is weaker.
            log.warning("what was known of the cluster can't be read", path=str(self._path))
            log.debug("unreadable", error=str(error))
            return nothing
        return kept if kept.cluster == cluster else nothing
