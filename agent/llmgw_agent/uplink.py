"""Where shard statuses go: up the stream that is open, or kept until the next one registers."""

from collections.abc import Callable, Iterable

from llmgw.model.shard import ShardStatus

Send = Callable[[ShardStatus], None]


class Uplink:
    """Carries each transition of a shard to the control plane.

    While nobody listens the latest status of each shard is kept. It is let go once a stream that
    registered with it was welcomed, so that an end with its reason is not lost in a reconnect.
    """

    def __init__(self) -> None:
        self._send: Send | None = None
        self._kept: dict[tuple[str, int], ShardStatus] = {}
        self._sent: dict[tuple[str, int], ShardStatus] = {}

    def tell(self, status: ShardStatus) -> None:
        """Send a status, or keep it."""
        if self._send is None:
            self._kept[status.replica, status.rank] = status
        else:
            self._send(status)

    def registering(self, running: Iterable[ShardStatus]) -> tuple[ShardStatus, ...]:
        """Return everything that a register says of shards.

        Args:
            running: what runs now, with whole specs; it goes before what was kept.
        """
        statuses = {(status.replica, status.rank): status for status in running}
        self._sent = dict(self._kept)
        return tuple({**self._kept, **statuses}.values())

    def open(self, send: Send) -> None:
        """Send from now on: a register was sent on this stream before."""
        self._send = send

    def welcomed(self) -> None:
        """Forget what the register carried: the control plane has it."""
        for place, status in self._sent.items():
            if self._kept.get(place) is status:
                del self._kept[place]
        self._sent = {}

    def close(self) -> None:
        """Keep from now on."""
        self._send = None
