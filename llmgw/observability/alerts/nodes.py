"""Alerts about nodes: whether they are there, their disks, what is measured of them."""

from llmgw.observability.alert import CRITICAL, INFO, WARNING, Alert, Case, Group
from llmgw.observability.alerts.series import NODE, series

_DISK = {**NODE, "mount": "/var/lib/llmgw-weights", "type": "ext4", "shared": "false"}
_SHARED = {**NODE, "mount": "/models", "type": "nfs4", "shared": "true"}
_CERTIFICATE = {"role": "node", "id": "gpu-01"}


def _certificate(*, ends: int, lives: int) -> dict[str, str]:
    """Return what is scraped of a certificate. Seconds since the test's start; its life."""
    return {
        series("llmgw_certificate_expiry_timestamp_seconds", _CERTIFICATE): f"{ends}x15",
        series("llmgw_certificate_issued_timestamp_seconds", _CERTIFICATE): f"{ends - lives}x15",
    }


_PROBE = {**NODE, "probe": "gpus"}

LOST = Alert(
    name="LlmgwNodeLost",
    expr="""llmgw_node_state{state="lost"} == 1
unless on () llmgw_mass_loss_nodes > 0""",
    hold="0m",
    severity=CRITICAL,
    summary="{{ $labels.node }} is lost",
    description="Nothing was heard of {{ $labels.node }} for longer than `link.lost_after`; what"
    " ran there is started elsewhere where the model's `disconnect.policy` is `replace`.",
    meaning="No word came from a node's agent for so long that its replicas count as gone. A node"
    " that the control plane knows from before it started counts from that start.",
    steps="""
        - Is the machine up? Its console or BMC; then the network between it and the control
          plane.
        - It is up: does `pgrep -af 'llmgw agent'` there find the agent? If not, start it as it was
          started before (`llmgw agent`, or its service where one was made of it). Its log, on
          stderr or in that service's journal, says which control plane's address it tries.
        - Gone for good: `llmgw ctl node rm NODE`.
    """,
    cases=(
        Case(
            at="3m",
            series={
                series("llmgw_node_state", NODE, state="lost"): "0 0 1 1",
                series("llmgw_node_state", NODE, state="ready"): "1 1 0 0",
            },
            fires=({**NODE, "state": "lost"},),
        ),
        Case(
            at="3m",
            series={
                series("llmgw_node_state", NODE, state="lost"): "1 1 0 0",
                series("llmgw_node_state", NODE, state="unreachable"): "0 0 1 1",
            },
        ),
    ),
)

TOGETHER = Alert(
    name="LlmgwNodesLostTogether",
    expr="llmgw_mass_loss_nodes > 0",
    hold="0m",
    severity=CRITICAL,
    summary="Nodes lost within a few seconds: {{ $value }}",
    description="More than a third of the nodes fell silent together: a fault of this control plane"
    " or its network. Nothing is placed anew for them; what they run goes on.",
    meaning="Many agents were lost at once. Machines die alone, so this is taken for a fault on the"
    " control plane's side, and no replica is moved for it. It stands for LlmgwNodeLost of each"
    " node.",
    steps="""
        - The network of the control plane's machine first: its link, switch, firewall, address.
        - `llmgw ctl nodes` shows which nodes are lost, and whether they come back.
        - The nodes are really gone: `llmgw ctl node accept-loss` has what they ran placed anew
          where models say so.
    """,
    cases=(
        Case(at="2m", series={"llmgw_mass_loss_nodes": "0 5 5"}, fires=({},), value="5"),
        Case(at="3m", series={"llmgw_mass_loss_nodes": "0 5 5 0"}),
    ),
)

UNREACHABLE = Alert(
    name="LlmgwNodeUnreachable",
    expr='avg_over_time(llmgw_node_state{state="unreachable"}[15m]) > 0.1',
    hold="2m",
    severity=WARNING,
    summary="{{ $labels.node }} is not heard from again and again",
    description="{{ $labels.node }} was unreachable for more than a tenth of the last quarter of an"
    " hour; what runs there may still serve.",
    meaning="Three of a node's heartbeats in a row were missed, for longer or several times. Until"
    " it is lost (`link.lost_after`) nothing is started elsewhere. One that dies is unreachable for"
    " less than a minute before it is lost, unless `link.lost_after` was raised.",
    steps="""
        - `llmgw ctl events` shows when it went and came back.
        - Whether the agent runs on the node (`pgrep -af 'llmgw agent'`) and what its log says,
          then the network to the control plane.
        - Its engines answer gateways as long as those reach the node.
    """,
    cases=(
        # For two minutes: `link.lost_after` was raised.
        Case(
            at="18m",
            series={series("llmgw_node_state", NODE, state="unreachable"): "0x12 1x2 0x20"},
            fires=({**NODE, "state": "unreachable"},),
        ),
        # Again and again, each time for less than a minute.
        Case(
            at="30m",
            series={series("llmgw_node_state", NODE, state="unreachable"): "0 0 0 1 0 0 0 1 " * 5},
            fires=({**NODE, "state": "unreachable"},),
        ),
        # Once, as a node that is restarted, or that is lost a moment later.
        Case(
            at="18m",
            series={series("llmgw_node_state", NODE, state="unreachable"): "0x14 1 0x20"},
        ),
    ),
)

CERTIFICATE = Alert(
    name="LlmgwCertificateEnds",
    expr="""llmgw_certificate_expiry_timestamp_seconds - time() < 0.25
* (llmgw_certificate_expiry_timestamp_seconds - llmgw_certificate_issued_timestamp_seconds)""",
    hold="10m",
    severity=CRITICAL,
    summary="The certificate of {{ $labels.role }} {{ $labels.id }} ends soon",
    description="It ends in {{ $value | humanizeDuration }}: less than a quarter of its life is"
    " left, and it should have been renewed at two thirds.",
    meaning="Certificates are renewed over the live stream at two thirds of their life (thirty days"
    " unless `certificates.lifetime` says otherwise). This one was not; when it ends, the service"
    " is shut out.",
    steps="""
        - Is it connected (`llmgw ctl nodes`, `llmgw ctl gateways`)? Its log says why a
          renewal failed; a full or read-only disk is a usual reason.
        - Restart the agent or gateway: it renews when it connects. Engines and replies go
          on.
        - It ended already: join again with a new token (`llmgw ctl node token NODE`).
    """,
    cases=(
        Case(
            at="11m",
            series=_certificate(ends=87_060, lives=30 * 86_400),
            fires=(_CERTIFICATE,),
            value="1d 0h 0m 0s",
        ),
        # One of a day, five hours before its end.
        Case(
            at="11m",
            series=_certificate(ends=18_660, lives=86_400),
            fires=(_CERTIFICATE,),
            value="5h 0m 0s",
        ),
        # Ten days of thirty are left; one of a day is new.
        Case(at="11m", series=_certificate(ends=864_000, lives=30 * 86_400)),
        Case(at="11m", series=_certificate(ends=86_400, lives=86_400)),
    ),
)

DISK = Alert(
    name="LlmgwDiskNearlyFull",
    expr='llmgw_node_filesystem_free_bytes{shared!="true"} / llmgw_node_filesystem_bytes < 0.1',
    hold="10m",
    severity=WARNING,
    summary="{{ $labels.node }}: {{ $labels.mount }} is nearly full",
    description="{{ $value | humanizePercentage }} of {{ $labels.mount }} ({{ $labels.type }}) is"
    " free.",
    meaning="A filesystem on which llmgw keeps weights, engines or its state has less than a tenth"
    " left. Weights that do not fit are not fetched, and models wait.",
    steps="""
        - `llmgw ctl node NODE` lists the filesystems and the weights on them.
        - Remove weights of models that are no longer in the catalog, or logs and containers
          of others.
        - A shared one fills for all nodes at once.
    """,
    cases=(
        Case(
            at="11m",
            series={
                series("llmgw_node_filesystem_free_bytes", _DISK): "5x15",
                series("llmgw_node_filesystem_bytes", _DISK): "100x15",
            },
            fires=(_DISK,),
            value="5%",
        ),
        Case(
            at="11m",
            series={
                series("llmgw_node_filesystem_free_bytes", _DISK): "5 5 50x15",
                series("llmgw_node_filesystem_bytes", _DISK): "100x15",
            },
        ),
        Case(at="11m", series={series("llmgw_node_filesystem_bytes", _DISK): "100x15"}),
    ),
)

SHARED_DISK = Alert(
    name="LlmgwSharedDiskNearlyFull",
    expr="""min by (mount, type) (
  llmgw_node_filesystem_free_bytes{shared="true"} / llmgw_node_filesystem_bytes
) < 0.05""",
    hold="10m",
    severity=WARNING,
    summary="The shared filesystem {{ $labels.mount }} is nearly full",
    description="{{ $value | humanizePercentage }} of {{ $labels.mount }} ({{ $labels.type }}) is"
    " free.",
    meaning="A filesystem that several nodes mount has less than a twentieth left. It fills for all"
    " of them at once.",
    steps="""
        - `llmgw ctl node NODE` lists the weights on it.
        - Remove weights that no model of the catalog needs; ask those who use it besides llmgw.
    """,
    cases=(
        Case(
            at="11m",
            series={
                series("llmgw_node_filesystem_free_bytes", _SHARED): "4x15",
                series("llmgw_node_filesystem_bytes", _SHARED): "100x15",
                series("llmgw_node_filesystem_free_bytes", _SHARED, node="gpu-02"): "4x15",
                series("llmgw_node_filesystem_bytes", _SHARED, node="gpu-02"): "100x15",
            },
            fires=({"mount": "/models", "type": "nfs4"},),
            value="4%",
        ),
        Case(
            at="11m",
            series={
                series("llmgw_node_filesystem_free_bytes", _SHARED): "9x15",
                series("llmgw_node_filesystem_bytes", _SHARED): "100x15",
                series("llmgw_node_filesystem_free_bytes", _DISK): "4x15",
                series("llmgw_node_filesystem_bytes", _DISK): "100x15",
            },
        ),
    ),
)

MEMORY = Alert(
    name="LlmgwNodeMemoryLow",
    expr="llmgw_node_memory_available_bytes / llmgw_node_memory_bytes < 0.05",
    hold="10m",
    severity=WARNING,
    summary="{{ $labels.node }} has hardly any memory left",
    description="{{ $value | humanizePercentage }} of its memory is available.",
    meaning="The machine is close to the point at which the kernel kills processes; an engine is"
    " the largest one and the likeliest.",
    steps="""
        - The node dashboard shows what each engine's processes take.
        - Lower what is placed there, or say in the model's profile what it really needs
          (`min_memory_gb`).
    """,
    cases=(
        Case(
            at="11m",
            series={
                series("llmgw_node_memory_available_bytes", NODE): "2x15",
                series("llmgw_node_memory_bytes", NODE): "100x15",
            },
            fires=(NODE,),
            value="2%",
        ),
        Case(
            at="11m",
            series={
                series("llmgw_node_memory_available_bytes", NODE): "2 2 20x15",
                series("llmgw_node_memory_bytes", NODE): "100x15",
            },
        ),
    ),
)

PROBE = Alert(
    name="LlmgwProbeFailing",
    expr="llmgw_probe_failing == 1",
    hold="15m",
    severity=WARNING,
    summary="{{ $labels.node }}: the probe {{ $labels.probe }} fails",
    description="{{ $labels.probe }} has failed for a quarter of an hour: what it reads is absent,"
    " not zero.",
    meaning="Something that the agent measures can't be read. The node works on; its readings are"
    " missing in dashboards, and placement knows less.",
    steps="""
        - `llmgw ctl node NODE` lists the probes with their ages and what they failed with.
        - Run the tool that it names on the node, as the agent's user.
        - `llmgw parse TOOL FILE` shows how its output is read: a wrong reading is a bug to
          report, with that output.
    """,
    cases=(
        Case(at="16m", series={series("llmgw_probe_failing", _PROBE): "1x20"}, fires=(_PROBE,)),
        Case(at="16m", series={series("llmgw_probe_failing", _PROBE): "1x10 0x10"}),
    ),
)

UNHEALTHY = Alert(
    name="LlmgwNodesUnhealthy",
    expr="llmgw_nodes_unhealthy > 0",
    hold="15m",
    severity=INFO,
    summary="Nodes that have something wrong with them: {{ $value }}",
    description="`llmgw ctl nodes` lists them with the reason.",
    meaning="A node has a reason in its health: a driver that was updated while the old one is"
    " loaded, a CPU without AVX2, a slow link.",
    steps="""
        - `llmgw ctl nodes`, then `llmgw ctl node NODE`: the reason says what to do.
    """,
    cases=(
        Case(at="16m", series={"llmgw_nodes_unhealthy": "2x20"}, fires=({},), value="2"),
        Case(at="16m", series={"llmgw_nodes_unhealthy": "2x10 0x10"}),
    ),
)

GROUP = Group(
    name="llmgw-nodes",
    title="Nodes",
    alerts=(
        LOST,
        TOGETHER,
        UNREACHABLE,
        CERTIFICATE,
        DISK,
        SHARED_DISK,
        MEMORY,
        PROBE,
        UNHEALTHY,
    ),
)
