"""What happened to hardware: kept for a day, so that a new leader knows it too."""

from llmgw.model.record import Record

MASTER = "master"
PORT = "port"
XID = "xid"
KINDS = (MASTER, PORT, XID)


class HardwareChange(Record, frozen=True, kw_only=True):
    """A port that sees another master or changed its state, or errors of a device's driver.

    What happens again and again within a minute is one change that goes on: it keeps its id.
    Times in seconds since the epoch.
    """

    id: str
    """Rises with each change."""
    at: float
    """When the control plane first heard of it."""
    until: float
    """When it was last seen to go on."""
    happened: float | None = None
    """When it began by what the machine says; None: it does not say, and `at` is as near."""
    node: str
    kind: str
    """`master`, `port` or `xid`."""
    subject: str
    """The port, `mlx5_0/1`, or a device's UUID and the error's number, `GPU-…/79`."""
    before: str | None = None
    """The master's GUID or the port's state; None: not known, and for driver errors."""
    after: str | None = None
    times: int = 0
    """How often within this change: the port's link went down, the driver told of the error."""
    total: int = 0
    """The same over all changes of the subject. It never falls."""
    reading: int | None = None
    """What the device's own counter stood at then; it may begin anew."""
    words: str

    @property
    def when(self) -> float:
        """Return when it began, as near as is known."""
        return self.at if self.happened is None else self.happened
