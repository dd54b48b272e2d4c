"""Network ports and what they are plugged into."""

from llmgw.model.record import Record


class PortCounter(Record, frozen=True, kw_only=True):
    """One counter of a port, with the name and the value that sysfs gives it.

    `port_rcv_data` and `port_xmit_data` count words of four bytes. `port_xmit_wait` counts the
    times that a port had to wait: congestion, and no error.
    """

    name: str
    value: int
    at_ceiling: bool | None = None
    """The counter stands at the most that it can hold, so there were at least that many."""


class Port(Record, frozen=True, kw_only=True):
    """An InfiniBand or RoCE port. Rate in bit/s."""

    adapter: str
    number: int
    link_layer: str | None = None
    state: str | None = None
    physical_state: str | None = None
    rate: int | None = None
    lid: int | None = None
    interface: str | None = None
    """The network interface of the port: `ib0`, `eth2`."""
    node_guid: str | None = None
    port_guid: str | None = None
    master_guid: str | None = None
    """GUID of the master subnet manager that this port sees."""
    network: str | None = None
    """IP network of the RoCE v2 address."""
    fabric: str | None = None
    """The name that the node's configuration gives the fabric."""
    counters: tuple[PortCounter, ...] | None = None


class SubnetManager(Record, frozen=True, kw_only=True):
    """A subnet manager seen on a fabric."""

    guid: str
    lid: int | None = None
    priority: int | None = None
    state: str | None = None
    """`master`, `standby`, `discovering` or `not_active`."""
    adapter: str | None = None
    """The node's port through which it was seen: `mlx5_0/1`."""
    master_guid: str | None = None
    """The master of the fabric on which it was seen."""


class NvlinkDomain(Record, frozen=True, kw_only=True):
    """GPUs that reach each other over NVLink, whatever node they are in."""

    cluster_uuid: str | None = None
    clique_id: int | None = None
    imex_running: bool | None = None
    imex_channels: tuple[str, ...] | None = None
