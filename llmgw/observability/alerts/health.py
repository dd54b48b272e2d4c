"""Alerts about faults of devices: what the driver reports of them each minute."""

from collections.abc import Mapping

from llmgw.observability.alert import CRITICAL, WARNING, Alert, Case, Group
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
        - Action `reboot`: reboot the node. XID 79 (fell off the bus) needs a full power
          cycle.
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
    description="{{ $labels.uuid }} counts {{ $value }} uncorrected ECC errors since its driver"
    " was loaded: what was computed there meanwhile may be wrong.",
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
    expr="llmgw_gpu_row_remap_failed == 1",
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
        Case(at="1m", series={series("llmgw_gpu_row_remap_failed", GPU): "0 0"}),
    ),
)

REMAP_PENDING = Alert(
    name="LlmgwGpuRowRemapPending",
    expr="llmgw_gpu_row_remap_pending == 1 or llmgw_gpu_page_retirement_pending == 1",
    hold="5m",
    severity=WARNING,
    summary="GPU {{ $labels.gpu }} of {{ $labels.node }} needs a reset to repair its memory",
    description="{{ $labels.uuid }} waits for a reset to take bad memory out of use.",
    meaning="Bad memory was found: a row waits to be remapped, or a page to be retired on cards"
    " before row remapping. Both are done when the card is reset.",
    steps="""
        - `llmgw ctl node NODE` shows the device, what the driver said last and since when.
        - The card may go on until there is time. Then drain the node
          (`llmgw ctl node drain NODE`), reset the card (`nvidia-smi --gpu-reset -i GPU`) or reboot.
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
                series("llmgw_gpu_page_retirement_pending", GPU, uuid="GPU-4"): "0x10",
            },
        ),
    ),
)

NVLINK_ERRORS = Alert(
    name="LlmgwGpuNvlinkErrors",
    expr="increase(llmgw_gpu_nvlink_errors_total[15m]) > 0",
    hold="10m",
    severity=WARNING,
    summary="GPU {{ $labels.gpu }} of {{ $labels.node }}: NVLink {{ $labels.kind }} errors rise",
    description="{{ $labels.uuid }} counted {{ $value | humanize }} NVLink {{ $labels.kind }}"
    " errors more in 15 minutes, and it goes on.",
    meaning="Transfers between cards are repeated (replay, crc) or a link had to be set up anew"
    " (recovery). Work over several cards becomes slow, and a link that gets worse falls away.",
    steps="""
        - `nvidia-smi nvlink -e` on the node tells which link; `-s` whether all are up.
        - Rising `recovery` errors: drain the node and reset its cards; a board with
          NVSwitch needs its fabric manager restarted too.
        - If it returns: reseat or replace the board, or the cable of an NVLink switch.
    """,
    cases=(
        Case(
            at="30m",
            series={series("llmgw_gpu_nvlink_errors_total", GPU, kind="replay"): "0+1x40"},
            fires=({**GPU, "kind": "replay"},),
            value="15",
        ),
        Case(
            at="30m",
            series={
                series("llmgw_gpu_nvlink_errors_total", GPU, kind="replay"): "7x40",
                series("llmgw_gpu_nvlink_errors_total", GPU, kind="crc"): "0 0 3x40",
            },
        ),
    ),
)

NVLINK_DOWN = Alert(
    name="LlmgwGpuNvlinkDown",
    expr="llmgw_gpu_nvlinks_down > 0",
    hold="5m",
    severity=WARNING,
    summary="GPU {{ $labels.gpu }} of {{ $labels.node }}: {{ $value }} NVLinks are down",
    description="{{ $labels.uuid }} has {{ $value }} NVLinks that carry nothing.",
    meaning="Links between the cards are inactive. Replicas over several cards there are slower"
    " than they could be, or do not start.",
    steps="""
        - `nvidia-smi nvlink -s` on the node tells which.
        - All links of all cards: the fabric manager does not run, or its version is not the
          driver's (`systemctl status nvidia-fabricmanager`).
        - Single ones: drain the node, reset its cards; if it stays, the board needs
          service.
    """,
    cases=(
        Case(
            at="6m",
            series={series("llmgw_gpu_nvlinks_down", GPU): "2x10"},
            fires=(GPU,),
            value="2",
        ),
        Case(at="6m", series={series("llmgw_gpu_nvlinks_down", GPU): "2 2 0x10"}),
    ),
)

HEAT = Alert(
    name="LlmgwGpuThermalThrottle",
    expr='llmgw_gpu_throttle_reason{reason=~"heat.*"} == 1',
    hold="5m",
    severity=WARNING,
    summary="GPU {{ $labels.gpu }} of {{ $labels.node }} is slowed down by heat",
    description="{{ $labels.uuid }} has run slower for five minutes: {{ $labels.reason }}.",
    meaning="The card lowers its clock because it is too hot. Replies become slower; a card that"
    " gets hotter still switches itself off.",
    steps="""
        - Compare with its neighbours on the GPU dashboard: one card alone has a cooling
          fault of its own (fan, heat sink, dust), all of them say that the room or the
          inlet is too warm.
        - The node dashboard shows the inlet's temperature where the board tells it.
        - Until it is repaired, lower the power limit: `nvidia-smi -i GPU -pl WATTS`.
    """,
    cases=(
        Case(
            at="6m",
            series={series("llmgw_gpu_throttle_reason", GPU, reason="heat (hardware)"): "1x10"},
            fires=({**GPU, "reason": "heat (hardware)"},),
        ),
        Case(
            at="6m",
            series={
                series("llmgw_gpu_throttle_reason", GPU, reason="heat (hardware)"): "1 1 stale",
                series("llmgw_gpu_throttle_reason", GPU, reason="power cap"): "1x10",
            },
        ),
    ),
)

BRAKE = Alert(
    name="LlmgwGpuPowerBrake",
    expr='llmgw_gpu_throttle_reason{reason="power brake"} == 1',
    hold="5m",
    severity=WARNING,
    summary="GPU {{ $labels.gpu }} of {{ $labels.node }} is held back by its power supply",
    description="The power brake of {{ $labels.uuid }} has been on for five minutes.",
    meaning="The machine's power supply holds the card at a fraction of its clock. Everything on"
    " it is many times slower, while it says that it is busy.",
    steps="""
        - Look at the machine's power supplies and their redundancy (BMC,
          `ipmitool sel list`).
        - All cards at once: the feed or a supply failed, or the rack's budget is exceeded.
    """,
    cases=(
        Case(
            at="6m",
            series={series("llmgw_gpu_throttle_reason", GPU, reason="power brake"): "1x10"},
            fires=({**GPU, "reason": "power brake"},),
        ),
        Case(
            at="6m",
            series={
                series("llmgw_gpu_throttle_reason", GPU, reason="power brake"): "1 1 stale",
                series("llmgw_gpu_throttle_reason", GPU, reason="idle"): "1x10",
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

PCIE = Alert(
    name="LlmgwGpuPcieNarrow",
    expr="llmgw_gpu_pcie_lanes < llmgw_gpu_pcie_max_lanes"
    " or llmgw_gpu_pcie_max_generation < llmgw_gpu_pcie_card_generation",
    hold="10m",
    severity=WARNING,
    summary="GPU {{ $labels.gpu }} of {{ $labels.node }}: its PCIe link is slower than it could be",
    description="{{ $labels.uuid }} has fewer lanes than it can use, or an older slot than it has"
    " a generation for (here: {{ $value }}).",
    meaning="The card is in a slot with fewer lanes, or of an older PCIe generation, than it was"
    " made for: loading weights and work over several cards is slower.",
    steps="""
        - `llmgw ctl node NODE` says how many GB/s the link carries, and how many it could.
        - `lspci -vv -s ADDRESS` on the node: compare LnkCap and LnkSta. A riser, a badly
          seated card and a setting of the BIOS (bifurcation) are the usual reasons.
        - A slot that is older by design: nothing to repair; silence the alert for the node.
    """,
    cases=(
        Case(
            at="11m",
            series={
                series("llmgw_gpu_pcie_lanes", GPU): "8x15",
                series("llmgw_gpu_pcie_max_lanes", GPU): "16x15",
            },
            fires=(GPU,),
            value="8",
        ),
        Case(
            at="11m",
            series={
                series("llmgw_gpu_pcie_max_generation", GPU): "3x15",
                series("llmgw_gpu_pcie_card_generation", GPU): "5x15",
            },
            fires=(GPU,),
            value="3",
        ),
        Case(
            at="11m",
            series={
                series("llmgw_gpu_pcie_lanes", GPU): "16x15",
                series("llmgw_gpu_pcie_max_lanes", GPU): "16x15",
                series("llmgw_gpu_pcie_max_generation", GPU): "5x15",
                series("llmgw_gpu_pcie_card_generation", GPU): "5x15",
            },
        ),
        Case(at="11m", series={series("llmgw_gpu_pcie_lanes", GPU): "1x15"}),
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
        NVLINK_ERRORS,
        NVLINK_DOWN,
        HEAT,
        BRAKE,
        UNHEALTHY,
        PCIE,
    ),
)
