"""Alerts about faults of devices: what the driver reports of them each minute."""

from collections.abc import Mapping

from llmgw.observability.alert import CRITICAL, WARNING, Alert, Case, Group
from llmgw.observability.alerts import slower
from llmgw.observability.alerts.series import GPU, series

_ENDS_A_PROGRAM = '{action!~"reset|reboot|replace|ignore"}'
"""What the agent tells of as over at once: no series says that it is open."""

_ENDED = {"xid": "31", "action": "restart_application"}
_UNKNOWN = {"xid": "999", "action": ""}
_IGNORED = {"xid": "43", "action": "ignore"}
_FATAL = {"xid": "79", "action": "reboot"}


def _seen(error: Mapping[str, str]) -> str:
    return series("llmgw_gpu_xid_last_seen_timestamp_seconds", GPU, **error)


def _counted(error: Mapping[str, str]) -> str:
    return series("llmgw_gpu_xid_events_total", GPU, **error)


def _said(metric: str) -> str:
    """Return what is true while a device says so, and while it says nothing after it did.

    A driver that hangs gives no report. What it said last still keeps the device out of placement,
    and so the alert goes on, until the device is well, gone, or silent for a day.
    """
    return f"""{metric} == 1
or last_over_time({metric}[1d]) == 1 and llmgw_gpu_healthy == 0"""


XID = Alert(
    name="LlmgwGpuXid",
    expr='llmgw_gpu_xid_open{action=~"reset|reboot|replace"} == 1',
    hold="0m",
    severity=CRITICAL,
    summary="GPU {{ $labels.gpu }} of {{ $labels.node }}: XID {{ $labels.xid }} asks for"
    " {{ $labels.action }}",
    description="The driver of {{ $labels.uuid }} logged XID {{ $labels.xid }}, and nothing has"
    " cleared it since. Nothing is placed on the device until then.",
    meaning="The NVIDIA driver reported a fault of the card (an XID) for which the table of XIDs"
    " asks for a reset, a reboot or a replacement. It clears when that was done.",
    steps="""
        - `llmgw ctl node NODE` shows the device, what the driver said last and since when.
        - Take the node out of placement first: `llmgw ctl node drain NODE`.
        - Action `reset`: once no process holds the card, `nvidia-smi --gpu-reset -i GPU`
          there; on a board with NVSwitch all its cards together.
        - Action `reboot`: reboot the node. A card that is not back then, as after XID 79
          (fell off the bus), needs a full power cycle.
        - Action `replace`: keep the node drained and open a case with the maker; attach the
          output of `nvidia-bug-report.sh`.
        - When it is well again: `llmgw ctl node uncordon NODE`.
    """,
    cases=(
        Case(
            at="2m",
            series={series("llmgw_gpu_xid_open", GPU, xid="79", action="reboot"): "_ 1 1"},
            fires=({**GPU, "xid": "79", "action": "reboot"},),
        ),
        Case(
            at="2m",
            series={
                series("llmgw_gpu_xid_open", GPU, xid="79", action="reboot"): "1 0 0",
                series("llmgw_gpu_xid_open", GPU, xid="43", action="ignore"): "1x5",
            },
        ),
    ),
)

XID_APPLICATION = Alert(
    name="LlmgwGpuXidApplication",
    expr=f"""time() - llmgw_gpu_xid_last_seen_timestamp_seconds{_ENDS_A_PROGRAM} < 600
or increase(llmgw_gpu_xid_events_total{_ENDS_A_PROGRAM}[10m]) > 0""",
    hold="0m",
    severity=WARNING,
    summary="GPU {{ $labels.gpu }} of {{ $labels.node }}: XID {{ $labels.xid }}",
    description="The driver of {{ $labels.uuid }} logged XID {{ $labels.xid }} within ten minutes."
    " The card goes on; what ran on it may not.",
    meaning="Within the last ten minutes the driver reported an XID that ends the program which"
    " caused it, or one that the table of XIDs does not know. It leaves no fault behind, so the"
    " alert ends ten minutes after the last one.",
    steps="""
        - `llmgw ctl node NODE` shows the device, what the driver said last and since when.
        - `llmgw ctl replicas` shows whether a replica on that device failed at that time;
          its engine is started again by itself. `llmgw ctl logs NODE -s REPLICA/RANK` has
          its last words.
        - Again and again on one card: treat it as [LlmgwGpuXid](#llmgwgpuxid). On many
          cards with one model: suspect the engine or the model.
        - An XID without an action is not in the table: look it up in NVIDIA's list of XIDs.
    """,
    cases=(
        # The first one of its kind: a counter that begins with 1 has not increased.
        Case(
            at="22m",
            series={_seen(_ENDED): "_x19 1210x10", _counted(_ENDED): "_x19 1x10"},
            fires=({**GPU, **_ENDED},),
        ),
        # A further one, of a log that gives no times.
        Case(
            at="22m",
            series={_counted(_ENDED): "4x20 5x10"},
            fires=({**GPU, **_ENDED},),
        ),
        Case(
            at="22m",
            series={_seen(_UNKNOWN): "_x19 1210x10", _counted(_UNKNOWN): "_x19 1x10"},
            fires=({**GPU, "xid": "999"},),
        ),
        # Ten minutes later it is over, whatever is still counted.
        Case(
            at="32m",
            series={_seen(_ENDED): "_x19 1210x30", _counted(_ENDED): "_x19 1x30"},
        ),
        Case(
            at="22m",
            series={
                _seen(_IGNORED): "_x19 1210x10",
                _counted(_IGNORED): "4x20 5x10",
                _seen(_FATAL): "_x19 1210x10",
                _counted(_FATAL): "4x20 5x10",
            },
        ),
    ),
)

ECC = Alert(
    name="LlmgwGpuUncorrectedEcc",
    expr='llmgw_gpu_ecc_errors_total{kind="uncorrected"} > 0',
    hold="0m",
    severity=CRITICAL,
    summary="GPU {{ $labels.gpu }} of {{ $labels.node }}: uncorrected memory errors",
    description="Uncorrected ECC errors of {{ $labels.uuid }} since its driver was loaded:"
    " {{ $value }}. What was computed there meanwhile may be wrong.",
    meaning="The card's memory returned data that its error correction could not repair. The count"
    " starts anew with a reset of the card, and the alert ends with it.",
    steps="""
        - `llmgw ctl node NODE` shows the device, what the driver said last and since when.
        - Take the node out of placement first: `llmgw ctl node drain NODE`.
        - Reset the card (`nvidia-smi --gpu-reset -i GPU`) or reboot: the driver then remaps
          or retires the bad memory.
        - If it returns within days, or the row remap fails
          ([LlmgwGpuRowRemapFailed](#llmgwgpurowremapfailed)), the card has to be replaced.
        - When it is well again: `llmgw ctl node uncordon NODE`.
    """,
    cases=(
        Case(
            at="3m",
            series={series("llmgw_gpu_ecc_errors_total", GPU, kind="uncorrected"): "0 0 2 2"},
            fires=({**GPU, "kind": "uncorrected"},),
            value="2",
        ),
        Case(
            at="3m",
            series={
                series("llmgw_gpu_ecc_errors_total", GPU, kind="uncorrected"): "2 2 0 0",
                series("llmgw_gpu_ecc_errors_total", GPU, kind="corrected"): "0 9 9 9",
            },
        ),
    ),
)

REMAP_FAILED = Alert(
    name="LlmgwGpuRowRemapFailed",
    expr=_said("llmgw_gpu_row_remap_failed"),
    hold="0m",
    severity=CRITICAL,
    summary="GPU {{ $labels.gpu }} of {{ $labels.node }}: a memory row could not be remapped",
    description="{{ $labels.uuid }} has no spare row left for one that is bad.",
    meaning="A row of the card's memory is bad and there was no spare one to take its place. The"
    " maker takes this as ground for a replacement.",
    steps="""
        - `llmgw ctl node NODE` shows the device, what the driver said last and since when.
        - Take the node out of placement first: `llmgw ctl node drain NODE`.
        - Replace the card; attach the output of `nvidia-bug-report.sh`.
    """,
    cases=(
        Case(
            at="1m",
            series={series("llmgw_gpu_row_remap_failed", GPU): "0 1"},
            fires=(GPU,),
        ),
        # Its driver hangs: nothing is reported any more, and the device is out of placement.
        Case(
            at="20m",
            series={
                series("llmgw_gpu_row_remap_failed", GPU): "0 1 stale",
                series("llmgw_gpu_healthy", GPU): "0x20",
            },
            fires=(GPU,),
        ),
        Case(
            at="20m",
            series={
                series("llmgw_gpu_row_remap_failed", GPU): "1 0 stale",
                series("llmgw_gpu_healthy", GPU): "0x20",
            },
        ),
        # It was replaced.
        Case(
            at="20m",
            series={
                series("llmgw_gpu_row_remap_failed", GPU): "1 1 stale",
                series("llmgw_gpu_healthy", GPU): "0 0 stale",
            },
        ),
        Case(at="1m", series={series("llmgw_gpu_row_remap_failed", GPU): "0 0"}),
    ),
)

REMAP_PENDING = Alert(
    name="LlmgwGpuRowRemapPending",
    expr=f"""{_said("llmgw_gpu_row_remap_pending")}
or {_said("llmgw_gpu_page_retirement_pending")}""",
    hold="5m",
    severity=WARNING,
    summary="GPU {{ $labels.gpu }} of {{ $labels.node }} needs a reset to repair its memory",
    description="{{ $labels.uuid }} waits for a reset to take bad memory out of use.",
    meaning="Bad memory was found: a row waits to be remapped, or a page to be retired on cards"
    " before row remapping. Both are done when the card is reset.",
    steps="""
        - `llmgw ctl node NODE` shows the device, what the driver said last and since when.
        - Nothing new is placed on the card from now on; a replica that runs there goes on. When
          there is time, drain the node (`llmgw ctl node drain NODE`), then reset the card
          (`nvidia-smi --gpu-reset -i GPU`) or reboot.
        - When it is well again: `llmgw ctl node uncordon NODE`.
    """,
    cases=(
        Case(
            at="6m",
            series={
                series("llmgw_gpu_row_remap_pending", GPU): "1x10",
                series("llmgw_gpu_page_retirement_pending", GPU, uuid="GPU-4"): "1x10",
            },
            fires=(GPU, {**GPU, "uuid": "GPU-4"}),
        ),
        Case(
            at="6m",
            series={
                series("llmgw_gpu_row_remap_pending", GPU): "1 1 1 0x10",
                series("llmgw_gpu_healthy", GPU): "0x15",
                series("llmgw_gpu_page_retirement_pending", GPU, uuid="GPU-4"): "0x10",
            },
        ),
    ),
)

UNHEALTHY = Alert(
    name="LlmgwGpuUnhealthy",
    expr="llmgw_gpu_healthy == 0",
    hold="5m",
    severity=WARNING,
    summary="GPU {{ $labels.gpu }} of {{ $labels.node }} is out of placement",
    description="Nothing is placed on {{ $labels.uuid }}: the node's page says why.",
    meaning="The device has a reason for which nothing may be placed on it: a fault above, a driver"
    " that does not answer for it, or MIG mode with no instance carved.",
    steps="""
        - `llmgw ctl node NODE` and `llmgw ctl explain MODEL` say the reason in words.
        - The reason's own alert, if there is one, says what to do.
    """,
    cases=(
        Case(at="6m", series={series("llmgw_gpu_healthy", GPU): "0x10"}, fires=(GPU,)),
        Case(at="6m", series={series("llmgw_gpu_healthy", GPU): "0 0 1x10"}),
        Case(at="6m", series={series("llmgw_gpu_healthy", GPU): "_x10"}),
    ),
)

GROUP = Group(
    name="llmgw-device-health",
    title="Faults of devices",
    alerts=(
        XID,
        XID_APPLICATION,
        ECC,
        REMAP_FAILED,
        REMAP_PENDING,
        UNHEALTHY,
        *slower.ALERTS,
    ),
)
