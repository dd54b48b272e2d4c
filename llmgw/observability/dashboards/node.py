"""One node, or a few side by side."""

from llmgw.observability.dashboards.choices import NODE
from llmgw.observability.panel import STATES, TABLE, Dashboard, Panel, Query, Row

_N = 'node=~"$node"'
_SILENT = "where it was not measured within the last minute"
_NO_SHARD = "while no engine of llmgw runs there"

_WHAT = Row(
    "What it is",
    (
        Panel(
            "Machine",
            shows="Operating system, kernel, driver and agent.",
            empty="for a node that was not heard of for a minute",
            queries=(Query(f"llmgw_node_info{{{_N}}}", ""),),
            kind=TABLE,
            width=24,
            height=5,
            hidden=("Value",),
        ),
        Panel(
            "State",
            shows="Whether the node is heard.",
            empty="while no leader is scraped",
            queries=(Query(f"llmgw_node_state{{{_N}}} == 1", "{{node}} {{state}}"),),
            kind=STATES,
            width=16,
            height=6,
        ),
        Panel(
            "Memory bandwidth",
            shows="What all cores together and one core alone read from memory, as the agent"
            " measured it once.",
            empty="until it was measured; a node may be told not to",
            queries=(
                Query(f"llmgw_node_mem_bandwidth_bytes_per_second{{{_N}}}", "{{node}} {{scope}}"),
            ),
            unit="Bps",
            height=6,
            least=0,
        ),
    ),
)

_USE = Row(
    "Use",
    (
        Panel(
            "Processors",
            shows="Share of all cores in use between two heartbeats.",
            empty=_SILENT,
            queries=(Query(f"llmgw_node_cpu_utilization_percent{{{_N}}}", "{{node}}"),),
            unit="percent",
            least=0,
            most=100,
        ),
        Panel(
            "Load",
            shows="Load average over a minute, for each core: above 1 something waits.",
            empty=_SILENT,
            queries=(Query(f"llmgw_node_load{{{_N}}} / llmgw_node_cpus", "{{node}}"),),
            least=0,
        ),
        Panel(
            "Memory",
            shows="Memory that is not available, and what replicas have reserved.",
            empty=_SILENT,
            queries=(
                Query(f"llmgw_node_memory_bytes{{{_N}}}", "{{node}} total"),
                Query(f"llmgw_node_memory_used_bytes{{{_N}}}", "{{node}} used"),
                Query(f"llmgw_node_memory_reserved_bytes{{{_N}}}", "{{node}} reserved"),
            ),
            unit="bytes",
            least=0,
        ),
        Panel(
            "Disks",
            shows="Free share of each filesystem that llmgw uses.",
            empty=_SILENT,
            queries=(
                Query(
                    f"llmgw_node_filesystem_free_bytes{{{_N}}} / llmgw_node_filesystem_bytes",
                    "{{node}} {{mount}} ({{type}})",
                ),
            ),
            unit="percentunit",
            least=0,
            most=1,
        ),
        Panel(
            "Temperatures",
            shows="Processor packages, board and inlet.",
            empty="on machines without such sensors: virtual ones have none",
            queries=(Query(f"llmgw_node_temperature_celsius{{{_N}}}", "{{node}} {{sensor}}"),),
            unit="celsius",
        ),
        Panel(
            "Power of the processors",
            shows="Draw of each processor package, from its energy counter.",
            empty="where the counters are not there or may not be read",
            queries=(Query(f"llmgw_node_power_watts{{{_N}}}", "{{node}} {{sensor}}"),),
            unit="watt",
            least=0,
        ),
    ),
)

_ENGINES = Row(
    "Engines",
    (
        Panel(
            "Cores of engines",
            shows="Cores that each engine's processes use.",
            empty=_NO_SHARD,
            queries=(Query(f"llmgw_shard_cpu_cores{{{_N}}}", "{{model}} {{replica}}/{{rank}}"),),
            least=0,
        ),
        Panel(
            "Memory of engines",
            shows="Resident memory of each engine's processes.",
            empty=_NO_SHARD,
            queries=(Query(f"llmgw_shard_memory_bytes{{{_N}}}", "{{model}} {{replica}}/{{rank}}"),),
            unit="bytes",
            least=0,
        ),
    ),
)

_DEVICES = Row(
    "Devices",
    (
        Panel(
            "Busy: share of time any kernel ran, not work",
            shows="Utilisation as the driver tells it. One small kernel after another is 100 %.",
            empty="for MIG instances, and for devices that do not tell",
            queries=(Query(f"llmgw_gpu_busy_ratio{{{_N}}}", "{{node}}/gpu{{gpu}}"),),
            unit="percentunit",
            least=0,
            most=1,
        ),
        Panel(
            "Memory of devices",
            shows="Share of each device's memory that is in use, by whomever.",
            empty="for devices without memory of their own, or that do not tell",
            queries=(
                Query(
                    f"llmgw_gpu_memory_used_bytes{{{_N}}} / llmgw_gpu_memory_bytes",
                    "{{node}}/gpu{{gpu}}",
                ),
            ),
            unit="percentunit",
            least=0,
            most=1,
        ),
        Panel(
            "Temperature of devices",
            shows="Temperature of each device.",
            empty="for devices that do not tell",
            queries=(Query(f"llmgw_gpu_temperature_celsius{{{_N}}}", "{{node}}/gpu{{gpu}}"),),
            unit="celsius",
        ),
    ),
)

_PROBES = Row(
    "Warnings and probes",
    (
        Panel(
            "Warnings",
            shows="How many things about the node a person should know: `llmgw ctl node` names"
            " them.",
            empty="for a node that was not heard of for a minute",
            queries=(Query(f"llmgw_node_warnings{{{_N}}}", "{{node}}"),),
            least=0,
        ),
        Panel(
            "Probes that fail",
            shows="How long each source of facts has given no reading.",
            empty="when all of them do",
            queries=(Query(f"llmgw_probe_failing_seconds{{{_N}}}", "{{node}} {{probe}}"),),
            unit="s",
            least=0,
        ),
        Panel(
            "Age of readings",
            shows="Seconds since each source of facts was last read.",
            empty="for a source that never gave a reading",
            queries=(Query(f"llmgw_probe_age_seconds{{{_N}}}", "{{node}} {{probe}}"),),
            unit="s",
            least=0,
        ),
    ),
)

DASHBOARD = Dashboard(
    name="node",
    title="llmgw: node",
    description="What a machine is, how much of it is used, and what its agent can read.",
    variables=(NODE,),
    rows=(_WHAT, _USE, _ENGINES, _DEVICES, _PROBES),
)
