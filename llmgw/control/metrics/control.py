"""The control plane itself."""

from llmgw.control.metrics.family import GAUGE, Family, Samples
from llmgw.control.metrics.snapshot import Snapshot

NEVER = "never"


def _build(seen: Snapshot) -> Samples:
    return [((seen.version, seen.cluster, seen.server), 1)]


def _leader(seen: Snapshot) -> Samples:
    return [((), int(seen.leader))]


def _term(seen: Snapshot) -> Samples:
    return [((), seen.term)]


def _followers(seen: Snapshot) -> Samples:
    return [((), seen.followers)]


def _agents(seen: Snapshot) -> Samples:
    return [((), seen.agents)]


def _gateways(seen: Snapshot) -> Samples:
    return [((one.id,), int(one.connected)) for one in seen.gateways]


def _failing(seen: Snapshot) -> Samples:
    return [
        ((name,), None if last is None else int(last.error is not None))
        for name, last in seen.passes.items()
    ]


def _passed(seen: Snapshot) -> Samples:
    return [((name,), None if last is None else last.at) for name, last in seen.passes.items()]


FAMILIES = (
    Family(
        name="llmgw_build_info",
        kind=GAUGE,
        labels=("version", "cluster", "server"),
        unit="-",
        help="1; the labels tell what runs.",
        absent=NEVER,
        read=_build,
        always=True,
    ),
    Family(
        name="llmgw_leader",
        kind=GAUGE,
        labels=(),
        unit="0 or 1",
        help="Whether this control plane leads.",
        absent=NEVER,
        read=_leader,
        always=True,
    ),
    Family(
        name="llmgw_leader_term",
        kind=GAUGE,
        labels=(),
        unit="-",
        help="The term under which commands are sent; it rises with each start and leader.",
        absent=NEVER,
        read=_term,
        always=True,
    ),
    Family(
        name="llmgw_feed_followers",
        kind=GAUGE,
        labels=(),
        unit="followers",
        help="Consoles, gateways and standbys that follow the feed.",
        absent=NEVER,
        read=_followers,
        always=True,
    ),
    Family(
        name="llmgw_agents_connected",
        kind=GAUGE,
        labels=(),
        unit="agents",
        help="Agents with a live stream.",
        absent="on a standby",
        read=_agents,
    ),
    Family(
        name="llmgw_gateway_up",
        kind=GAUGE,
        labels=("gateway",),
        unit="0 or 1",
        help="Whether a gateway has a live stream.",
        absent="until the gateway connected once since the control plane started",
        read=_gateways,
    ),
    Family(
        name="llmgw_pass_failing",
        kind=GAUGE,
        labels=("pass",),
        unit="0 or 1",
        help="Whether the last run of a background pass failed.",
        absent="before its first run",
        read=_failing,
        always=True,
    ),
    Family(
        name="llmgw_pass_last_run_timestamp_seconds",
        kind=GAUGE,
        labels=("pass",),
        unit="seconds since the epoch",
        help="When a background pass last ended.",
        absent="before its first run",
        read=_passed,
        always=True,
    ),
)
