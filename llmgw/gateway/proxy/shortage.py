"""What this machine itself may lack for a connection to an engine: no fault of the engine."""

import asyncio
import errno
import socket

from llmgw.base.log import get
from llmgw.gateway.refusals import Refusal

log = get(__name__)

OWN = frozenset(
    {
        errno.EMFILE,
        errno.ENFILE,
        errno.EADDRNOTAVAIL,
        errno.ENOBUFS,
        errno.ENOMEM,
        socket.EAI_MEMORY,
        socket.EAI_SYSTEM,
    }
)
"""Errors of a machine that is out of something: another engine would do no better."""
RETRY = 1
"""Seconds after which a client may ask again: requests end, and leave what they had."""
SAID_EVERY = 60.0
"""Seconds between two lines of the log about it."""


class Shortage:
    """Tells errors of this machine from those of engines, and says so now and then."""

    def __init__(self) -> None:
        self._said = float("-inf")

    def refusal(self, error: OSError) -> Refusal | None:
        """Return what a client is told where it is this machine that lacks something."""
        if error.errno not in OWN:
            return None
        why = str(error.strerror or error)
        now = asyncio.get_running_loop().time()
        if now - self._said >= SAID_EVERY:
            self._said = now
            log.error("the gateway can open no connection to an engine", why=why)
        words = f"the gateway can open no connection to an engine: {why}"
        return Refusal("gateway_exhausted", words, None, RETRY)
