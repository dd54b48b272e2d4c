"""What devices say of their wear and faults, and what the kernel's log has of them.

Counters are the device's own. One that begins anew, since the driver was loaded or the machine
started, is a reset that Prometheus accounts for.
"""

from collections.abc import Callable
from operator import attrgetter

from llmgw.control.metrics.devices import NODE_GONE, NOT_READ
from llmgw.control.metrics.family import COUNTER, Figures, NodeFamily
from llmgw.control.metrics.onenode import DEVICE, OneNode, first_of
from llmgw.control.metrics.text import shown
from llmgw.model.device import Xid

NOT_TOLD = (
    "the device does not tell, or the reading is older than a minute (agents read health each 45 s)"
)
NO_LOG = "none since the machine started, or the kernel's log can't be read"

_KIND = (*DEVICE, "kind")
_XID = (*DEVICE, "xid", "action")


def _kinds(**fields: str) -> Callable[[OneNode], Figures]:
    """Return a reader of several fields, each under its value of the label `kind`."""
    read = [(kind, attrgetter(field)) for kind, field in fields.items()]
    return lambda node: [
        (f'{text},kind="{kind}"', value(health))
        for text, health in node.health
        for kind, value in read
    ]


def _of(name: str) -> Callable[[OneNode], Figures]:
    value = attrgetter(name)
    return lambda node: [(text, value(health)) for text, health in node.health]


def _said(name: str) -> Callable[[OneNode], Figures]:
    value = attrgetter(name)

    def read(node: OneNode) -> Figures:
        for text, health in node.health:
            found = value(health)
            yield text, None if found is None else int(found)

    return read


def _healthy(node: OneNode) -> Figures:
    for text, device in node.devices:
        yield text, None if device.unhealthy is None else int(not device.unhealthy)


def _ecc(node: OneNode) -> Figures:
    """Yield the counts of the readings alone.

    Those of the minute's report are the same a little later: now the one, now the other would fall.
    """
    for text, reading in node.readings:
        yield f'{text},kind="corrected"', reading.ecc_corrected
        yield f'{text},kind="uncorrected"', reading.ecc_uncorrected


def _xids(value: Callable[[Xid], float | None]) -> Callable[[OneNode], Figures]:
    return lambda node: first_of(
        (f'{text},xid="{xid.code}",action="{shown(xid.action or "")}"', value(xid))
        for text, health in node.health
        for xid in health.xids or ()
    )


def _wanted(node: OneNode) -> Figures:
    for text, health in node.health:
        if health.recovery_action is not None:
            yield f'{text},action="{shown(health.recovery_action)}"', 1


def _age(node: OneNode) -> Figures:
    for text, health in node.health:
        yield text, None if health.age is None else health.age + node.age


FAMILIES = (
    NodeFamily(
        name="llmgw_gpu_healthy",
        labels=DEVICE,
        unit="0 or 1",
        help="Whether engines can be placed on a device, for all that its node knows.",
        absent="it is not known, or " + NODE_GONE,
        read=_healthy,
    ),
    NodeFamily(
        name="llmgw_gpu_ecc_errors_total",
        kind=COUNTER,
        labels=_KIND,
        unit="errors",
        help="Memory errors since the driver was loaded or the device reset; kind: corrected or "
        "uncorrected.",
        absent=NOT_READ,
        read=_ecc,
    ),
    NodeFamily(
        name="llmgw_gpu_ecc_lifetime_errors_total",
        kind=COUNTER,
        labels=_KIND,
        unit="errors",
        help="Memory errors over a device's life; kind: corrected or uncorrected.",
        absent=NOT_TOLD,
        read=_kinds(corrected="ecc_corrected_aggregate", uncorrected="ecc_uncorrected_aggregate"),
    ),
    NodeFamily(
        name="llmgw_gpu_remapped_rows_total",
        kind=COUNTER,
        labels=_KIND,
        unit="rows",
        help="Rows of memory that were replaced, over a device's life; kind: after corrected or "
        "uncorrected errors.",
        absent=NOT_TOLD,
        read=_kinds(corrected="remapped_corrected", uncorrected="remapped_uncorrected"),
    ),
    NodeFamily(
        name="llmgw_gpu_row_remap_pending",
        labels=DEVICE,
        unit="0 or 1",
        help="Whether a row waits for a reset of the device to be replaced.",
        absent=NOT_TOLD,
        read=_said("remap_pending"),
    ),
    NodeFamily(
        name="llmgw_gpu_row_remap_failed",
        labels=DEVICE,
        unit="0 or 1",
        help="Whether a row could not be replaced: the device has none left.",
        absent=NOT_TOLD,
        read=_said("remap_failed"),
    ),
    NodeFamily(
        name="llmgw_gpu_retired_pages_total",
        kind=COUNTER,
        labels=_KIND,
        unit="pages",
        help="Pages of memory that were retired, over a device's life; kind: for repeated "
        "corrected or for uncorrected errors.",
        absent=NOT_TOLD + "; of devices that replace rows",
        read=_kinds(corrected="retired_corrected", uncorrected="retired_uncorrected"),
    ),
    NodeFamily(
        name="llmgw_gpu_page_retirement_pending",
        labels=DEVICE,
        unit="0 or 1",
        help="Whether a page waits for a reset of the device to be retired.",
        absent=NOT_TOLD + "; of devices that replace rows",
        read=_said("retire_pending"),
    ),
    NodeFamily(
        name="llmgw_gpu_nvlinks",
        labels=DEVICE,
        unit="links",
        help="NVLink links of a device.",
        absent=NOT_TOLD,
        read=_of("nvlinks"),
    ),
    NodeFamily(
        name="llmgw_gpu_nvlinks_down",
        labels=DEVICE,
        unit="links",
        help="NVLink links of a device that carry nothing.",
        absent=NOT_TOLD,
        read=_of("nvlinks_down"),
    ),
    NodeFamily(
        name="llmgw_gpu_nvlink_errors_total",
        kind=COUNTER,
        labels=_KIND,
        unit="errors",
        help="Errors of a device's NVLink links, summed over them; kind: replay, recovery or crc.",
        absent=NOT_TOLD,
        read=_kinds(
            replay="nvlink_replay_errors",
            recovery="nvlink_recovery_errors",
            crc="nvlink_crc_errors",
        ),
    ),
    NodeFamily(
        name="llmgw_gpu_recovery_action",
        labels=(*DEVICE, "action"),
        unit="1",
        help="1 for what the driver itself asks for: none, reset, reboot or drain.",
        absent=NOT_TOLD,
        read=_wanted,
    ),
    NodeFamily(
        name="llmgw_gpu_xid_events_total",
        kind=COUNTER,
        labels=_XID,
        unit="events",
        help="Driver errors of a device since the machine started, by NVIDIA's number and what "
        "it asks for.",
        absent=NO_LOG,
        read=_xids(lambda xid: xid.count),
    ),
    NodeFamily(
        name="llmgw_gpu_xid_last_seen_timestamp_seconds",
        labels=_XID,
        unit="seconds since the epoch",
        help="When a driver error was last seen.",
        absent=NO_LOG + ", or it gives no time",
        read=_xids(lambda xid: xid.last_seen),
    ),
    NodeFamily(
        name="llmgw_gpu_xid_open",
        labels=_XID,
        unit="1",
        help="1 for a driver error that is not known to be over.",
        absent="once the device was reset, its driver loaded anew or the machine restarted; for an "
        "error that asks for nothing or for a restart of the program alone, which is over at once; "
        "and where there is " + NO_LOG,
        read=_xids(lambda xid: None if xid.cleared else 1),
    ),
    NodeFamily(
        name="llmgw_gpu_health_age_seconds",
        labels=DEVICE,
        unit="seconds",
        help="Age of a device's report of its health.",
        absent=NOT_TOLD,
        read=_age,
    ),
)
