"""The first message down every stream."""

from collections.abc import Callable
from dataclasses import dataclass

from llmgw.model.link import Welcome
from llmgw.model.settings import NodeSettings


@dataclass(frozen=True, slots=True)
class Greeting:
    """What every welcome says of this control plane."""

    cluster: str
    server: str
    version: str
    epoch: Callable[[], str]
    addresses: Callable[[], tuple[str, ...]]

    def welcome(
        self, *, term: int, settings: NodeSettings, interval: float, lost_after: float
    ) -> Welcome:
        """Return the first message down a stream."""
        return Welcome(
            cluster=self.cluster,
            server=self.server,
            server_version=self.version,
            term=term,
            epoch=self.epoch(),
            heartbeat_interval=interval,
            lost_after=lost_after,
            control_planes=self.addresses() or None,
            settings=settings,
        )
