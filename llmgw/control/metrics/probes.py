"""How a node's sources of facts do."""

from llmgw.control.metrics.family import Figures, NodeFamily
from llmgw.control.metrics.onenode import OneNode

_PROBE = ("node", "probe")
_OLD = "the node's last heartbeat is older than a minute"


def _failing(node: OneNode) -> Figures:
    return [(text, int(one.error is not None)) for text, one in node.probes]


def _age(node: OneNode) -> Figures:
    return [(text, _since(one.age, node)) for text, one in node.probes]


def _failing_for(node: OneNode) -> Figures:
    return [(text, _since(one.failing, node)) for text, one in node.probes]


def _since(seconds: float | None, node: OneNode) -> float | None:
    return None if seconds is None else seconds + node.age


FAMILIES = (
    NodeFamily(
        name="llmgw_probe_failing",
        labels=_PROBE,
        unit="0 or 1",
        help="Whether a source of facts gave no reading when it was last asked.",
        absent=_OLD,
        read=_failing,
    ),
    NodeFamily(
        name="llmgw_probe_failing_seconds",
        labels=_PROBE,
        unit="seconds",
        help="How long a source of facts has given no reading.",
        absent="while it gives one, or " + _OLD,
        read=_failing_for,
    ),
    NodeFamily(
        name="llmgw_probe_age_seconds",
        labels=_PROBE,
        unit="seconds",
        help="Age of the last reading of a source of facts.",
        absent="it never gave one, or " + _OLD,
        read=_age,
    ),
)
