"""What a gateway's own file, variables and flags may say: only what it needs to start."""

from llmgw.base.address import host_and_port
from llmgw.base.errors import Usage
from llmgw.model.record import Written

DEFAULT_PORT = 7440
DEFAULT_LINK = "127.0.0.1:7442"
"""Where a control plane on this machine listens unless it is told otherwise."""
MOST_WORKERS = 256


class GatewayServiceConfig(Written, frozen=True, kw_only=True):
    """How one gateway starts. Everything else comes from the cluster's settings."""

    state_dir: str | None = None
    """Where its state lies; None: the place of its user."""
    listen: str = f"0.0.0.0:{DEFAULT_PORT}"
    """Where users connect: `host:port`; port 0 takes a free one."""
    url: str | None = None
    """Where users reach it, as the console shows it; None: found from `listen`."""
    workers: int = 2
    """Processes that serve."""
    control_planes: tuple[str, ...] = ()
    """`host:port` of each control plane's link."""
    certificate: str | None = None
    """TLS files; None: those in the state directory, where `--join` puts them."""
    key: str | None = None
    """Of the certificate: a file of mode 0600."""
    authority: str | None = None
    """The CA of the cluster."""
    drain: float = 30.0
    """Seconds that replies may go on when the gateway is told to stop."""
    log_level: str = "info"
    """`debug`, `info` or `warning`."""


def check_config(config: GatewayServiceConfig) -> None:
    """Refuse what cannot work, before anything is started.

    Raises:
        Usage: the first thing that is wrong.
    """
    host_and_port(config.listen, "listen", listening=True)
    for address in config.control_planes:
        host_and_port(address, "control_planes")
    if not 1 <= config.workers <= MOST_WORKERS:
        raise Usage(f"workers: {config.workers} is not between 1 and {MOST_WORKERS}")
    if config.drain < 0:
        raise Usage(f"drain: {config.drain:g} is less than no time")
