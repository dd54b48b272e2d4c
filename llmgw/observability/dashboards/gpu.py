"""Devices: what they do, what they draw, and how they are."""

from llmgw.observability.dashboards.choices import GPU, NODE
from llmgw.observability.panel import STATES, TABLE, Dashboard, Panel, Query, Row

_D = 'node=~"$node",gpu=~"$gpu"'
_NAME = "{{node}}/gpu{{gpu}}"
_SILENT = "for devices that do not tell"
_PROFILING = "where no profiling counters can be read (NVML from Hopper on, or dcgm-exporter)"
_REPORT = "for devices that do not tell, or whose last report is older than two minutes"


def _each(metric: str) -> str:
    return f"{metric}{{{_D}}}"


def _profiling(title: str, metric: str, shows: str) -> Panel:
    return Panel(
        title,
        shows=shows,
        empty=_PROFILING,
        queries=(Query(_each(metric), _NAME),),
        unit="percent",
        least=0,
        most=100,
    )


_WORK = Row(
    "Work",
    (
        Panel(
            "Busy: share of time any kernel ran, not work",
            shows="Utilisation as the driver tells it. One small kernel after another is 100 %.",
            empty="for MIG instances and for devices that do not tell",
            queries=(Query(_each("llmgw_gpu_busy_ratio"), _NAME),),
            unit="percentunit",
            least=0,
            most=1,
        ),
        Panel(
            "Work",
            shows="SM active where profiling counters can be read, else draw against limit: the"
            " source stands beside the name.",
            empty="where neither can be read",
            queries=(Query(_each("llmgw_gpu_work_ratio"), f"{_NAME} ({{{{source}}}})"),),
            unit="percentunit",
            least=0,
        ),
        Panel(
            "Memory",
            shows="Memory in use, by whomever, and the whole.",
            empty="for devices without memory of their own, or that do not tell",
            queries=(
                Query(_each("llmgw_gpu_memory_used_bytes"), f"{_NAME} used"),
                Query(_each("llmgw_gpu_memory_bytes"), f"{_NAME} total"),
            ),
            unit="bytes",
            least=0,
        ),
        _profiling(
            "SM active",
            "llmgw_gpu_sm_active_percent",
            "Share of time in which a multiprocessor had work.",
        ),
        _profiling(
            "SM occupancy",
            "llmgw_gpu_sm_occupancy_active_percent",
            "Share of the multiprocessors' places that were taken.",
        ),
        _profiling(
            "Tensor cores active",
            "llmgw_gpu_tensor_active_percent",
            "Share of time in which the tensor cores worked.",
        ),
        _profiling(
            "Memory moved data",
            "llmgw_gpu_dram_active_percent",
            "Share of time in which the device's memory moved data.",
        ),
        Panel(
            "Memory controller busy",
            shows="Share of time in which memory was read or written, as the driver tells it.",
            empty="for MIG instances and for devices that do not tell",
            queries=(Query(_each("llmgw_gpu_memory_bandwidth_ratio"), _NAME),),
            unit="percentunit",
            least=0,
            most=1,
        ),
        Panel(
            "Held by",
            shows="Which model's replica holds which device.",
            empty="when no replica holds a device",
            queries=(Query(_each("llmgw_gpu_held"), ""),),
            kind=TABLE,
            hidden=("Value",),
        ),
    ),
)

_POWER = Row(
    "Power, heat, clocks",
    (
        Panel(
            "Draw",
            shows="Power that each device draws.",
            empty=_SILENT,
            queries=(Query(_each("llmgw_gpu_power_watts"), _NAME),),
            unit="watt",
            least=0,
        ),
        Panel(
            "Draw against limit",
            shows="Share of its limit that each device draws.",
            empty=_SILENT,
            queries=(
                Query(f"{_each('llmgw_gpu_power_watts')} / llmgw_gpu_power_limit_watts", _NAME),
            ),
            unit="percentunit",
            least=0,
        ),
        Panel(
            "Temperature",
            shows="Temperature of each device.",
            empty=_SILENT,
            queries=(Query(_each("llmgw_gpu_temperature_celsius"), _NAME),),
            unit="celsius",
        ),
        Panel(
            "Temperature of the memory",
            shows="Temperature of each device's memory (HBM).",
            empty="for devices that do not tell: most without HBM",
            queries=(Query(_each("llmgw_gpu_memory_temperature_celsius"), _NAME),),
            unit="celsius",
        ),
        Panel(
            "Clock of the multiprocessors",
            shows="It drops when a device idles, or is held back.",
            empty=_SILENT,
            queries=(Query(_each("llmgw_gpu_sm_clock_hertz"), _NAME),),
            unit="hertz",
            least=0,
        ),
        Panel(
            "Fans",
            shows="Speed of each device's own fan.",
            empty="for devices without a fan of their own",
            queries=(Query(_each("llmgw_gpu_fan_ratio"), _NAME),),
            unit="percentunit",
            least=0,
        ),
        Panel(
            "Held back",
            shows="Reasons for which a device runs slower than it could.",
            empty="while nothing holds a device back",
            queries=(Query(_each("llmgw_gpu_throttle_reason"), f"{_NAME}: {{{{reason}}}}"),),
            kind=STATES,
            width=24,
        ),
    ),
)

_HEALTH = Row(
    "Health",
    (
        Panel(
            "Open XIDs",
            shows="Driver errors that nothing has cleared, what they ask for, and when they were"
            " last seen.",
            empty="when there are none, or the kernel's log can't be read",
            queries=(
                Query(f"{_each('llmgw_gpu_xid_open')} == 1", "open"),
                Query(
                    f"1000 * {_each('llmgw_gpu_xid_last_seen_timestamp_seconds')}"
                    " and llmgw_gpu_xid_open == 1",
                    "last seen",
                ),
                Query(
                    f"{_each('llmgw_gpu_xid_events_total')} and llmgw_gpu_xid_open == 1", "count"
                ),
            ),
            kind=TABLE,
            width=16,
            units={"last seen": "dateTimeAsIso"},
        ),
        Panel(
            "Placement takes it",
            shows="1 for a device on which replicas can be placed, 0 for one that is unhealthy.",
            empty="where it is not known",
            queries=(Query(_each("llmgw_gpu_healthy"), _NAME),),
            least=0,
            most=1,
        ),
        Panel(
            "The driver asks for",
            shows="What the driver itself asks for: none, reset, reboot or drain.",
            empty=_REPORT,
            queries=(Query(_each("llmgw_gpu_recovery_action"), f"{_NAME}: {{{{action}}}}"),),
            kind=STATES,
        ),
        Panel(
            "ECC errors",
            shows="Memory errors since the driver was loaded or the device reset.",
            empty=_REPORT,
            queries=(Query(_each("llmgw_gpu_ecc_errors_total"), f"{_NAME} {{{{kind}}}}"),),
            least=0,
        ),
        Panel(
            "ECC errors over its life",
            shows="Memory errors over each device's whole life.",
            empty=_REPORT,
            queries=(Query(_each("llmgw_gpu_ecc_lifetime_errors_total"), f"{_NAME} {{{{kind}}}}"),),
            least=0,
        ),
        Panel(
            "Remapped rows, retired pages",
            shows="Bad memory that was taken out of use, over each device's life.",
            empty=_REPORT,
            queries=(
                Query(_each("llmgw_gpu_remapped_rows_total"), f"{_NAME} rows, {{{{kind}}}}"),
                Query(_each("llmgw_gpu_retired_pages_total"), f"{_NAME} pages, {{{{kind}}}}"),
            ),
            least=0,
        ),
        Panel(
            "Waits for a reset",
            shows="1 where bad memory waits for a reset to be taken out of use, or where that"
            " failed.",
            empty=_REPORT,
            queries=(
                Query(_each("llmgw_gpu_row_remap_pending"), f"{_NAME} row pending"),
                Query(_each("llmgw_gpu_row_remap_failed"), f"{_NAME} row failed"),
                Query(_each("llmgw_gpu_page_retirement_pending"), f"{_NAME} page pending"),
            ),
            least=0,
            most=1,
        ),
        Panel(
            "NVLinks down",
            shows="Links of each device that carry nothing.",
            empty="for devices without NVLink, and for those that do not tell",
            queries=(Query(_each("llmgw_gpu_nvlinks_down"), _NAME),),
            least=0,
        ),
        Panel(
            "NVLink errors",
            shows="Errors of each device's links that were added in five minutes.",
            empty="for devices without NVLink, and for those that do not tell",
            queries=(
                Query(
                    f"increase({_each('llmgw_gpu_nvlink_errors_total')}[5m])",
                    f"{_NAME} {{{{kind}}}}",
                ),
            ),
            least=0,
        ),
    ),
)

_LINKS = Row(
    "PCIe, others, and what can be read",
    (
        Panel(
            "PCIe lanes missing",
            shows="Lanes that a device could use and does not have.",
            empty=_SILENT,
            queries=(Query(f"{_each('llmgw_gpu_pcie_max_lanes')} - llmgw_gpu_pcie_lanes", _NAME),),
            least=0,
        ),
        Panel(
            "PCIe generations missing",
            shows="How much newer a device is than its slot.",
            empty=_SILENT,
            queries=(
                Query(
                    f"{_each('llmgw_gpu_pcie_card_generation')} - llmgw_gpu_pcie_max_generation",
                    _NAME,
                ),
            ),
            least=0,
        ),
        Panel(
            "PCIe replays",
            shows="Transfers that had to be repeated, added in five minutes.",
            empty=_SILENT,
            queries=(Query(f"increase({_each('llmgw_gpu_pcie_replays_total')}[5m])", _NAME),),
            least=0,
        ),
        Panel(
            "Memory of others",
            shows="Memory that processes hold which are none of llmgw's engines.",
            empty="where processes can't be listed",
            queries=(Query(_each("llmgw_gpu_foreign_memory_bytes"), _NAME),),
            unit="bytes",
            least=0,
        ),
        Panel(
            "Devices without a reading",
            shows="Devices of nodes that answer, which report nothing.",
            empty="when every device reports",
            queries=(Query(_each("llmgw_gpu_sample_missing"), _NAME),),
            least=0,
            most=1,
        ),
        Panel(
            "Age of readings",
            shows="Seconds since a device was last read, and since its health was.",
            empty=_SILENT,
            queries=(
                Query(_each("llmgw_gpu_reading_age_seconds"), f"{_NAME} reading"),
                Query(_each("llmgw_gpu_health_age_seconds"), f"{_NAME} health"),
            ),
            unit="s",
            least=0,
        ),
    ),
)

DASHBOARD = Dashboard(
    name="gpu",
    title="llmgw: GPU",
    description="What devices do, what they draw, and how they are.",
    variables=(NODE, GPU),
    rows=(_WORK, _POWER, _HEALTH, _LINKS),
)
