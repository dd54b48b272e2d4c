"""How many bytes of requests' bodies one worker holds, and how many it may."""

BODIES_MOST = 1 << 30
"""Bytes of bodies that a worker holds at once: what came in of them, until a reply has begun.

One body may always be as large as `gateway.request_body_bytes` lets it. What is made of a body for
an engine comes on top, so that a worker may use twice as much.
"""
RETRY_BODIES = 2
"""Seconds after which a client may send again what there was no room for."""


class Bodies:
    """The bodies of one worker."""

    __slots__ = ("_most", "held")

    def __init__(self, most: int = BODIES_MOST) -> None:
        self._most = most
        self.held = 0
        """Bytes."""

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
