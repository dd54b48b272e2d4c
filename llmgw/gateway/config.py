"""What a gateway's own file, variables and flags may say: only what it needs to start."""

from llmgw.base.address import host_and_port
from llmgw.base.errors import Usage
from llmgw.model.record import Written

DEFAULT_PORT = 7440
DEFAULT_LINK = "127.0.0.1:7442"
"""Where a control plane on this machine listens unless it is told otherwise."""
DEFAULT_METRICS = "127.0.0.1:7441"
"""Where a control plane would show them."""
MOST_WORKERS = 256
CLUSTER = "cluster"
"""In `tls`: the certificate is the cluster's."""


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
    endpoints: str | None = None
    """File with models, endpoints and keys: with it the gateway needs no control plane."""
    metrics: str = DEFAULT_METRICS
    """Where a gateway without a control plane shows `/metrics`: `host:port`, on loopback."""
    tls: str | None = None
    """`cluster`: users are shown a certificate that the cluster signs and renews."""
    tls_cert: str | None = None
    """Certificate with its chain (PEM) that users are shown; None: users connect without TLS."""
    tls_key: str | None = None
    """Its key: a file of mode 0600."""
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
    if config.endpoints is not None:
        _check_alone(config)
    _check_tls(config)
    if config.drain < 0:
        raise Usage(f"drain: {config.drain:g} is less than no time")


def _check_tls(config: GatewayServiceConfig) -> None:
    if (config.tls_cert is None) != (config.tls_key is None):
        raise Usage("tls_cert and tls_key are given both or not at all")
    if config.tls is None:
        return
    if config.tls != CLUSTER:
        raise Usage(f"tls: {config.tls!r} is not {CLUSTER!r}", hint="own files: tls_cert, tls_key")
    if config.tls_cert is not None:
        raise Usage("tls: the cluster's certificate and one of your own exclude each other")
    if config.endpoints is not None:
        raise Usage("tls: a gateway with a file of endpoints has no cluster to sign anything")


def _check_alone(config: GatewayServiceConfig) -> None:
    if config.control_planes:
        raise Usage(
            "endpoints: a gateway with a file of endpoints has no control plane",
            hint="beside a control plane they are a setting: publishing.endpoints",
        )
    host, _ = host_and_port(config.metrics, "metrics", listening=True)
    if host not in {"127.0.0.1", "::1", "localhost"}:
        raise Usage(f"metrics: {host} is not loopback; nobody is asked for a key there")
