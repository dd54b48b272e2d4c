"""The control plane itself."""

from llmgw.control.metrics.family import ALL, FleetFamily, Samples
from llmgw.control.metrics.snapshot import Snapshot
from llmgw.control.metrics.tally import Tally
from llmgw.control.metrics.text import labelled, shown

NEVER = "never"

_BUILD = ("version", "cluster", "server")


def _build(seen: Snapshot, tally: Tally) -> Samples:
    return [(labelled(_BUILD, (seen.version, seen.cluster, seen.server)), 1)]


def _leader(seen: Snapshot, tally: Tally) -> Samples:
    return [("", int(seen.leader))]


def _term(seen: Snapshot, tally: Tally) -> Samples:
    return [("", seen.term)]


def _followers(seen: Snapshot, tally: Tally) -> Samples:
    return [("", seen.followers)]


def _agents(seen: Snapshot, tally: Tally) -> Samples:
    return [("", seen.agents)]


def _settled(seen: Snapshot, tally: Tally) -> Samples:
    return [("", int(seen.settled))]


def _gateways(seen: Snapshot, tally: Tally) -> Samples:
    return [(f'gateway="{shown(one.id)}"', int(one.connected)) for one in seen.gateways]


def _workers(seen: Snapshot, tally: Tally) -> Samples:
    for one in seen.gateways:
        yield f'gateway="{shown(one.id)}"', one.workers if one.connected else None


def _failing(seen: Snapshot, tally: Tally) -> Samples:
    return [
        (f'pass="{shown(name)}"', None if last is None else int(last.error is not None))
        for name, last in seen.passes.items()
    ]


def _passed(seen: Snapshot, tally: Tally) -> Samples:
    return [
        (f'pass="{shown(name)}"', None if last is None else last.at)
        for name, last in seen.passes.items()
    ]


def _unwritten(seen: Snapshot, tally: Tally) -> Samples:
    return [(f'records="{shown(kind)}"', int(fails)) for kind, fails in seen.unwritten.items()]


FAMILIES = (
    FleetFamily(
        name="llmgw_build_info",
        labels=_BUILD,
        unit="-",
        help="1; the labels tell what runs.",
        absent=NEVER,
        by=ALL,
        read=_build,
    ),
    FleetFamily(
        name="llmgw_leader",
        unit="0 or 1",
        help="Whether this control plane leads.",
        absent=NEVER,
        by=ALL,
        read=_leader,
    ),
    FleetFamily(
        name="llmgw_leader_term",
        unit="-",
        help="The term under which commands are sent; it rises with each start and leader.",
        absent=NEVER,
        by=ALL,
        read=_term,
    ),
    FleetFamily(
        name="llmgw_leader_settled",
        unit="0 or 1",
        help="Whether the known nodes have reported since this leader took over, or were waited "
        "for long enough.",
        absent="on a standby",
        read=_settled,
    ),
    FleetFamily(
        name="llmgw_feed_followers",
        unit="followers",
        help="Consoles, gateways and standbys that follow the feed.",
        absent=NEVER,
        by=ALL,
        read=_followers,
    ),
    FleetFamily(
        name="llmgw_agents_connected",
        unit="agents",
        help="Agents with a live stream.",
        absent="on a standby",
        read=_agents,
    ),
    FleetFamily(
        name="llmgw_gateway_up",
        labels=("gateway",),
        unit="0 or 1",
        help="Whether a gateway has a live stream.",
        absent="until the gateway connected once since the control plane started",
        read=_gateways,
    ),
    FleetFamily(
        name="llmgw_gateway_workers",
        labels=("gateway",),
        unit="workers",
        help="Processes with which a gateway answers.",
        absent="until the gateway connected once since the control plane started, and while it is "
        "away",
        read=_workers,
    ),
    FleetFamily(
        name="llmgw_pass_failing",
        labels=("pass",),
        unit="0 or 1",
        help="Whether the last run of a background pass failed.",
        absent="before its first run",
        by=ALL,
        read=_failing,
    ),
    FleetFamily(
        name="llmgw_pass_last_run_timestamp_seconds",
        labels=("pass",),
        unit="seconds since the epoch",
        help="When a background pass last ended.",
        absent="before its first run",
        by=ALL,
        read=_passed,
    ),
    FleetFamily(
        name="llmgw_store_write_failing",
        labels=("records",),
        unit="0 or 1",
        help="Whether records of a kind can't be written into the store: the disk is full, say. "
        "Events wait in memory meanwhile, the newest thousand.",
        absent="before the first of the kind is written",
        by=ALL,
        read=_unwritten,
    ),
)
