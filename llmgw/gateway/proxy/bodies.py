"""How many bytes of requests' bodies one worker holds, and how many it may."""

BODIES_MOST = 1 << 30
"""Bytes of bodies that a worker holds at once at most unless the settings say otherwise."""
SHARE = 8
"""The workers of a gateway may hold this part (one in so many) of the machine's memory."""
RETRY_BODIES = 2
"""Seconds after which a client may send again what there was no room for."""


def share_of(memory: int, workers: int) -> int:
    """Return the bytes that one of so many workers may hold unless the settings say otherwise.

    What is made of a body for an engine comes on top, so that a worker may use twice as much.
    """
    return min(BODIES_MOST, memory // SHARE // max(1, workers))


class Bodies:
    """The bodies of one worker: what came in of them, until a reply has begun.

    One body may always be as large as `gateway.request_body_bytes` lets it.

    Args:
        most: bytes that it may hold when the settings do not say.
    """

    __slots__ = ("_default", "_most", "held")

    def __init__(self, most: int = BODIES_MOST) -> None:
        self._default = self._most = most
        self.held = 0
        """Bytes."""

    def allow(self, most: int | None) -> None:
        """Hold so many bytes at most from now on; None: as many as at the start."""
        self._most = self._default if most is None else most

    def take(self, size: int, own: int) -> bool:
        """Count some bytes more; say whether there is room. They are given back in any case.

        Args:
            size: of what came in now.
            own: of all of the body that it belongs to.
        """
        self.held += size
        return self.held <= self._most or self.held == own

    def give(self, size: int) -> None:
        """Count bytes no longer."""
        self.held -= size
