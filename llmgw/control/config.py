"""What a control plane's own file, variables and flags may say: only what it needs to start."""

from llmgw.base.address import host_and_port
from llmgw.base.errors import Usage
from llmgw.base.log import LEVELS
from llmgw.model.record import Written

ADMIN_PORT = 7441
LINK_PORT = 7442


class ServerConfig(Written, frozen=True, kw_only=True):
    """How one control plane starts. Everything else is a setting of the cluster."""

    state_dir: str | None = None
    """Where its state lies; None: the place of its user."""
    id: str | None = None
    """Of this control plane; None: the host name."""
    admin: str = f"127.0.0.1:{ADMIN_PORT}"
    """Where the admin API listens; port 0 takes a free one."""
    link: str = f"0.0.0.0:{LINK_PORT}"
    """Where agents and gateways connect; port 0 takes a free one."""
    addresses: tuple[str, ...] = ()
    """Names and addresses that nodes reach it by, for its certificate; besides those found."""
    context: str | None = "local"
    """The command line's context that a new cluster writes; None: none."""
    print_ready: bool = False
    """Print one JSON line on stdout when requests are answered."""
    ready_fd: int | None = None
    """Write that line to this descriptor, too."""
    log_level: str = "info"
    """`debug`, `info` or `warning`."""


def check_config(config: ServerConfig) -> None:
    """Refuse what can't work, before anything is started.

    Raises:
        Usage: the first thing that is wrong.
    """
    host_and_port(config.admin, "admin", listening=True)
    host_and_port(config.link, "link", listening=True)
    if config.log_level not in LEVELS:
        known = ", ".join(LEVELS)
        raise Usage(f"log_level: {config.log_level!r} is none of {known}")
    for address in config.addresses:
        if ":" in address and address.count(":") == 1:
            raise Usage(f"addresses: {address!r} has a port", hint="write the name alone")
