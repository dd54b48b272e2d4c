"""Messages of the link that are neither facts nor commands."""

from llmgw.model.commands import Command, LogLines, Reply
from llmgw.model.feed import Batch, Follow, Position
from llmgw.model.gateway import (
    EndpointDown,
    EngineLoads,
    GatewayRegister,
    LoadReport,
    RestartWorkers,
    TrafficReport,
    WorkersReport,
)
from llmgw.model.keys import QuotaGrant, QuotaReport, UsageReport
from llmgw.model.live import AskRequests, CancelRequests, RequestsEnded, RequestsSeen
from llmgw.model.node import Heartbeat, Inventory, Register
from llmgw.model.record import Record
from llmgw.model.settings import NodeSettings
from llmgw.model.shard import ShardStatus


class Welcome(Record, frozen=True, kw_only=True):
    """The control plane's first message. Seconds."""

    cluster: str
    server: str
    """The control plane's id."""
    server_version: str
    term: int
    epoch: str
    """The feed's epoch; new with each start of the control plane."""
    heartbeat_interval: float
    lost_after: float
    control_planes: tuple[str, ...] | None = None
    """Addresses of all control planes, the leader's first."""
    settings: NodeSettings | None = None


class Ping(Record, frozen=True, kw_only=True):
    """Says that the control plane lives; answered by `Pong` with the same number."""

    number: int


class Pong(Record, frozen=True, kw_only=True):
    """The answer to a ping."""

    number: int


class Goodbye(Record, frozen=True, kw_only=True):
    """The control plane closes the stream on purpose. Seconds."""

    reason: str
    reconnect_after: float | None = None
    leader: str | None = None
    """Address of the leader, when a standby answers."""


class Notice(Record, frozen=True, kw_only=True):
    """Something that a person at that node should read; it goes to the agent's log."""

    words: str


class CertificateRequest(Record, frozen=True, kw_only=True):
    """A node asks for a new certificate over its live stream; the key stays on the node."""

    csr_pem: str
    for_users: bool = False
    """A gateway asks for the one that users see, in place of its own."""


class CertificateIssued(Record, frozen=True, kw_only=True):
    """The new certificate and the cluster's CA."""

    certificate_pem: str
    authority_pem: str
    for_users: bool = False
    """It is the one that a gateway's users see."""


class UsageTaken(Record, frozen=True, kw_only=True):
    """The report of that worker up to `sequence` is in the store and may be forgotten."""

    gateway: str
    boot: str
    worker: int
    sequence: int


class AgentMessage(Record, frozen=True, kw_only=True):
    """Up an agent's stream: exactly one is set."""

    register: Register | None = None
    heartbeat: Heartbeat | None = None
    shard: ShardStatus | None = None
    inventory: Inventory | None = None
    reply: Reply | None = None
    log_lines: LogLines | None = None
    pong: Pong | None = None
    certificate_request: CertificateRequest | None = None


class AgentControl(Record, frozen=True, kw_only=True):
    """Down an agent's stream: exactly one is set."""

    welcome: Welcome | None = None
    command: Command | None = None
    ping: Ping | None = None
    goodbye: Goodbye | None = None
    certificate: CertificateIssued | None = None
    notice: Notice | None = None


class GatewayMessage(Record, frozen=True, kw_only=True):
    """Up a gateway's stream: exactly one is set."""

    register: GatewayRegister | None = None
    follow: Follow | None = None
    usage: UsageReport | None = None
    traffic: TrafficReport | None = None
    endpoint_down: EndpointDown | None = None
    pong: Pong | None = None
    certificate_request: CertificateRequest | None = None
    reached: Position | None = None
    """All workers serve by the table of this place in the feed. Feature `reached`."""
    loads: LoadReport | None = None
    """Feature `loads`."""
    quotas: QuotaReport | None = None
    """Feature `quotas`."""
    requests_seen: RequestsSeen | None = None
    """Feature `requests`."""
    requests_ended: RequestsEnded | None = None
    """Feature `requests`."""
    workers: WorkersReport | None = None
    """Feature `restarts`."""


class GatewayControl(Record, frozen=True, kw_only=True):
    """Down a gateway's stream: exactly one is set."""

    welcome: Welcome | None = None
    batch: Batch | None = None
    usage_taken: UsageTaken | None = None
    ping: Ping | None = None
    goodbye: Goodbye | None = None
    certificate: CertificateIssued | None = None
    quotas: QuotaGrant | None = None
    """To a gateway with the feature `quotas`."""
    engine_loads: EngineLoads | None = None
    """To a gateway with the feature `engine_loads`."""
    ask_requests: AskRequests | None = None
    """To a gateway with the feature `requests`."""
    cancel_requests: CancelRequests | None = None
    """To a gateway with the feature `requests`."""
    restart_workers: RestartWorkers | None = None
    """To a gateway with the feature `restarts`."""


class AuthorityAnswer(Record, frozen=True, kw_only=True):
    """The cluster's name and CA, unverified until its hash was compared with a token's."""

    cluster: str
    authority_pem: str


class JoinRequest(Record, frozen=True, kw_only=True):
    """A machine asks for its first certificate with a one-time token."""

    token: str
    """The token's id."""
    secret: str
    csr_pem: str


class JoinAnswer(Record, frozen=True, kw_only=True):
    """The machine's certificate."""

    cluster: str
    role: str
    subject: str
    certificate_pem: str
    authority_pem: str
