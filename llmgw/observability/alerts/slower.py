"""Alerts about what makes a device slower: its links, heat, and the power that it is given."""

from llmgw.observability.alert import WARNING, Alert, Case
from llmgw.observability.alerts.series import GPU, series

NVLINK_ERRORS = Alert(
    name="LlmgwGpuNvlinkErrors",
    expr="increase(llmgw_gpu_nvlink_errors_total[15m]) > 0",
    hold="10m",
    severity=WARNING,
    summary="GPU {{ $labels.gpu }} of {{ $labels.node }}: NVLink {{ $labels.kind }} errors rise",
    description="{{ $labels.uuid }}: NVLink {{ $labels.kind }} errors in 15 minutes:"
    " {{ $value | humanize }}, and it goes on.",
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
    summary="GPU {{ $labels.gpu }} of {{ $labels.node }}: NVLinks that are down: {{ $value }}",
    description="NVLinks of {{ $labels.uuid }} that carry nothing: {{ $value }}.",
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
                series("llmgw_gpu_throttle_reason", GPU, reason="power cap"): "1x10",
            },
        ),
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
        - `lspci -vvv -s ADDRESS` on the node: compare LnkCap and LnkSta. A riser, a badly
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

ALERTS: tuple[Alert, ...] = (NVLINK_ERRORS, NVLINK_DOWN, HEAT, BRAKE, PCIE)
