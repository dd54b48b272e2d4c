"""What an agent's own file, variables and flags may say: only what it needs to start."""

import re

import msgspec

from llmgw.base.address import host_and_port
from llmgw.base.errors import Usage
from llmgw.base.log import LEVELS
from llmgw.model.catalog import ENGINES, SIMULATED
from llmgw.model.record import Written
from llmgw_agent.supervise.ports import PortRange

_NODE = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,251}[a-z0-9])?\Z")


class AgentConfig(Written, frozen=True, kw_only=True):
    """How one agent starts: what is not written is found, and what is written wins."""

    state_dir: str | None = None
    """Where its state lies; None: the place of its user."""
    node: str | None = None
    """Its id; None: the name of its certificate, or the host name in lower case."""
    control_planes: tuple[str, ...] = ()
    """`host:port` of control planes; those that a control plane tells of are added."""
    address: str | None = None
    """Where this node's engines are reached; None: the address of the route to a control plane."""
    engine_host: str | None = None
    """What engines listen on; None: `address`."""
    engine_ports: str = "7500-7999"
    """What engines listen on, one each."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    """What profiles ask for: `{rack: a3}`."""
    weights_dir: str | None = None
    """Where fetched weights lie."""
    model_dirs: tuple[str, ...] = ()
    """Directories of an operator: their models are reported and never touched."""
    engines_dir: str | None = None
    """Where installed engines lie."""
    engines: dict[str, str] = msgspec.field(default_factory=dict)
    """An operator's own engines: path of the program by engine. Reported, never replaced."""
    user: str | None = None
    """Who engines run as; None: who the agent runs as."""
    shared_filesystems: tuple[str, ...] = ()
    """Filesystem types that several machines see, beside the known ones."""
    allow_http: bool = False
    """Weights may be fetched over plain http."""
    stuck_after: float | None = None
    """Seconds for which an engine may have requests while no token moves; None: three minutes."""
    measure_bandwidth: bool = True
    """The memory's bandwidth is measured once a process, some seconds after it registered.

    It takes every core for a fraction of a second.
    """
    log_level: str = "info"
    """`debug`, `info` or `warning`."""


def check_config(config: AgentConfig) -> None:
    """Refuse what cannot work, before anything is started.

    Raises:
        Usage: the first thing that is wrong.
    """
    if config.node is not None:
        check_node(config.node)
    for address in config.control_planes:
        host_and_port(address, "control_planes")
    PortRange.parse(config.engine_ports)
    for engine, path in config.engines.items():
        if engine not in ENGINES or engine == SIMULATED:
            known = ", ".join(name for name in ENGINES if name != SIMULATED)
            raise Usage(
                f"engines: {engine!r} is not an engine of one's own", hint=f"one of {known}"
            )
        if not path.startswith("/"):
            raise Usage(f"engines.{engine}: {path!r} is not an absolute path")
    if config.stuck_after is not None and not config.stuck_after > 0:
        raise Usage(f"stuck_after: {config.stuck_after:g} is not more than 0 seconds")
    for directory in config.model_dirs:
        if not directory.startswith("/"):
            raise Usage(f"model_dirs: {directory!r} is not an absolute path")
    if config.log_level not in LEVELS:
        raise Usage(f"log_level: {config.log_level!r} is none of {', '.join(LEVELS)}")


def check_node(node: str) -> None:
    """Refuse what can't be a node's id.

    Raises:
        Usage: it is not a host name in lower case.
    """
    if not _NODE.match(node):
        raise Usage(
            f"{node!r} can't be a node's id",
            hint="write a host name: lower-case letters, digits, dots and dashes, at most 253",
        )
