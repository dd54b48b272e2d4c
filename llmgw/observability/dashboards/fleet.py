"""Was the cluster full at the time, and of what."""

from llmgw.observability.panel import STAT, TABLE, Dashboard, Panel, Query, Row, Step

_RED = "red"

_SETTLING = "until the known nodes have reported to a new leader"
_NO_LEADER = f"while no leader is scraped, and {_SETTLING}"

_OURS = "and on (instance, job) llmgw_build_info"
"""Every exporter has `process_` metrics: those of control planes alone, whatever the job's name."""

_GLANCE = Row(
    "At a glance",
    (
        Panel(
            "Nodes ready",
            shows="Nodes whose agents are heard.",
            empty=_NO_LEADER,
            queries=(Query('llmgw_nodes{state="ready"}'),),
            kind=STAT,
            width=3,
            height=4,
        ),
        Panel(
            "Nodes not ready",
            shows="Nodes that are unreachable, lost, or not heard of since the control plane"
            " started.",
            empty=_NO_LEADER,
            queries=(Query('sum(llmgw_nodes{state!="ready"})'),),
            kind=STAT,
            width=3,
            height=4,
            steps=(Step(_RED, 1),),
        ),
        Panel(
            "Devices held",
            shows="Share of all devices that a replica holds.",
            empty=f"without devices, and {_SETTLING}",
            queries=(Query("sum(llmgw_devices_in_use) / sum(llmgw_devices)"),),
            unit="percentunit",
            kind=STAT,
            width=3,
            height=4,
        ),
        Panel(
            "Devices unhealthy",
            shows="Devices on which nothing can be placed.",
            empty=f"without devices, and {_SETTLING}",
            queries=(Query("sum(llmgw_devices_unhealthy)"),),
            kind=STAT,
            width=3,
            height=4,
            steps=(Step(_RED, 1),),
        ),
        Panel(
            "Replicas serving",
            shows="Replicas that requests go to, of those that are wanted.",
            empty=f"without models, and {_SETTLING}",
            queries=(Query("sum(llmgw_replicas_serving) / sum(llmgw_replicas_wanted)"),),
            unit="percentunit",
            kind=STAT,
            width=3,
            height=4,
        ),
        Panel(
            "Models not served",
            shows="Models of the catalog that want replicas and have none that serves.",
            empty=f"without models, and {_SETTLING}",
            queries=(
                Query(
                    "count(llmgw_replicas_wanted > 0 and llmgw_replicas_serving == 0)"
                    " or 0 * count(llmgw_replicas_serving)"
                ),
            ),
            kind=STAT,
            width=3,
            height=4,
            steps=(Step(_RED, 1),),
        ),
        Panel(
            "Gateways",
            shows="Gateways that are connected.",
            empty="until a gateway connected once since the control plane started",
            queries=(Query("sum(llmgw_gateway_up)"),),
            kind=STAT,
            width=3,
            height=4,
        ),
        Panel(
            "Open XIDs",
            shows="Driver errors of devices that nothing has cleared, but those to ignore.",
            empty="where no device tells of its health",
            queries=(
                Query(
                    'count(llmgw_gpu_xid_open{action!="ignore"} == 1)'
                    " or 0 * count(llmgw_gpu_healthy)"
                ),
            ),
            kind=STAT,
            width=3,
            height=4,
            steps=(Step(_RED, 1),),
        ),
    ),
)

_DEVICES = Row(
    "Devices by class",
    (
        Panel(
            "Efficiency",
            shows="For each class: how many devices, the share that replicas hold, the share of"
            " time any kernel ran (busy, which is not work), the work (SM active where it can be"
            " read, else draw against limit: source says which), and the draw. Much held and"
            " little work is a fleet of models that nobody asks for.",
            empty=f"without devices, and {_SETTLING}; busy and work where no device tells",
            queries=(
                Query("sum by (class) (llmgw_devices)", "devices"),
                Query(
                    "sum by (class) (llmgw_devices_in_use) / sum by (class) (llmgw_devices)", "held"
                ),
                Query("avg by (class) (llmgw_devices_busy_ratio)", "busy"),
                Query("max by (class, source) (llmgw_devices_work_ratio)", "work"),
                Query("sum by (class) (llmgw_devices_power_watts)", "draw"),
            ),
            kind=TABLE,
            width=16,
            units={
                "held": "percentunit",
                "busy": "percentunit",
                "work": "percentunit",
                "draw": "watt",
            },
        ),
        Panel(
            "Models that nobody asks for",
            shows="Models that serve and got no request within an hour, with their replicas.",
            empty="when every model that serves was asked for",
            queries=(
                Query(
                    "sum by (model) (llmgw_replicas_serving) > 0"
                    " unless on (model) sum by (model) (increase(llmgw_requests_total[1h])) > 0",
                    "replicas",
                ),
            ),
            kind=TABLE,
            width=8,
        ),
        Panel(
            "Devices",
            shows="Was the cluster full: devices of each class that replicas hold, that are free,"
            " and that are neither, by reason: away (the node is not ready), unhealthy, foreign"
            " (somebody else uses them), draining or cordoned. Each device is one of these: stacked"
            " they reach the line of all devices.",
            empty=f"without devices, and {_SETTLING}",
            queries=(
                Query("sum by (class) (llmgw_devices_in_use)", "{{class}} held"),
                Query("sum by (class) (llmgw_devices_free)", "{{class}} free"),
                Query("sum by (class, reason) (llmgw_devices_unavailable)", "{{class}} {{reason}}"),
                Query("sum(llmgw_devices)", "all devices"),
            ),
            least=0,
            stacked=True,
            total="all devices",
        ),
        Panel(
            "Held beside busy",
            shows="Share of each class that replicas hold, beside the share of time any kernel"
            " ran on it.",
            empty=f"without devices, and {_SETTLING}; busy where no device tells",
            queries=(
                Query(
                    "sum by (class) (llmgw_devices_in_use) / sum by (class) (llmgw_devices)",
                    "{{class}} held",
                ),
                Query("avg by (class) (llmgw_devices_busy_ratio)", "{{class}} busy"),
            ),
            unit="percentunit",
            least=0,
            most=1,
        ),
        Panel(
            "Draw",
            shows="Power that the devices of a class draw together.",
            empty=f"where no device tells, and {_SETTLING}",
            queries=(Query("sum by (class) (llmgw_devices_power_watts)", "{{class}}"),),
            unit="watt",
            least=0,
            stacked=True,
        ),
    ),
)

_NODES = Row(
    "Nodes",
    (
        Panel(
            "Nodes by state",
            shows="Nodes by whether they are heard.",
            empty=_NO_LEADER,
            queries=(Query("sum by (state) (llmgw_nodes)", "{{state}}"),),
            least=0,
            stacked=True,
        ),
        Panel(
            "Cordoned, draining, with something wrong",
            shows="Nodes that an operator keeps out of placement, and nodes with a reason in their"
            " health.",
            empty=_NO_LEADER,
            queries=(
                Query("sum by (wish) (llmgw_nodes_wished)", "{{wish}}"),
                Query("llmgw_nodes_unhealthy", "something wrong"),
            ),
            least=0,
        ),
        Panel(
            "Processors and memory",
            shows="Share of all cores and of all memory in use, over all nodes.",
            empty="while no node reports",
            queries=(
                Query(
                    "sum(llmgw_node_cpu_utilization_percent * llmgw_node_cpus)"
                    " / sum(llmgw_node_cpus) / 100",
                    "cores",
                ),
                Query("sum(llmgw_node_memory_used_bytes) / sum(llmgw_node_memory_bytes)", "memory"),
            ),
            unit="percentunit",
            least=0,
            most=1,
        ),
    ),
)

_MODELS = Row(
    "Models",
    (
        Panel(
            "Replicas by state",
            shows="Replicas of all models by their state.",
            empty=f"without replicas, and {_SETTLING}",
            queries=(Query("sum by (state) (llmgw_replicas)", "{{state}}"),),
            least=0,
            stacked=True,
        ),
        Panel(
            "Gave way to others",
            shows="Replicas of each model that gave way to another model within an hour: evicted"
            " with nothing to do, or pre-empted while they served.",
            empty="for a model of which none did since the control plane started",
            queries=(
                Query("sum by (model) (increase(llmgw_evictions_total[1h]))", "{{model}} evicted"),
                Query(
                    "sum by (model) (increase(llmgw_preemptions_total[1h]))",
                    "{{model}} pre-empted",
                ),
            ),
            least=0,
        ),
        Panel(
            "Wanted and not serving",
            shows="Replicas of each model that are wanted and do not serve.",
            empty=f"without models, and {_SETTLING}",
            queries=(
                Query(
                    "sum by (model) (llmgw_replicas_wanted)"
                    " - sum by (model) (llmgw_replicas_serving)",
                    "{{model}}",
                ),
            ),
            least=0,
        ),
        Panel(
            "Why placement turned nodes down",
            shows="Nodes that the last plan turned down for a wanted replica, by rule.",
            empty="when every wanted replica found a place",
            queries=(
                Query(
                    "sum by (model, reason, kind) (llmgw_placement_refusals)",
                    "{{model}}: {{reason}} ({{kind}})",
                ),
            ),
            least=0,
        ),
    ),
)

_STORAGE = Row(
    "Storage",
    (
        Panel(
            "Weights",
            shows="Weights that the nodes hold, on their own disks; shared filesystems count once"
            " for each node that has them.",
            empty="where no node looks for weights",
            queries=(
                Query('sum(llmgw_node_weights_bytes{shared!="true"})', "own disks"),
                Query('sum(llmgw_node_weights_bytes{shared="true"})', "shared, by every node"),
            ),
            unit="bytes",
            least=0,
        ),
        Panel(
            "Weights by fabric",
            shows="Weights that nodes of one fabric hold whole, each set counted once.",
            empty="where no node is on a fabric",
            queries=(Query("sum by (fabric) (llmgw_fabric_weights_bytes)", "{{fabric}}"),),
            unit="bytes",
            least=0,
        ),
        Panel(
            "Fullest disks",
            shows="The ten filesystems with the smallest share of free space.",
            empty="while no node reports",
            queries=(
                Query(
                    "bottomk(10, llmgw_node_filesystem_free_bytes / llmgw_node_filesystem_bytes)",
                    "{{node}} {{mount}}",
                ),
            ),
            unit="percentunit",
            least=0,
            most=1,
        ),
    ),
)

_CONTROL = Row(
    "llmgw itself",
    (
        Panel(
            "Control plane",
            shows="Control planes that lead (one), agents that are connected, followers of the"
            " feed.",
            empty="while no control plane is scraped",
            queries=(
                Query("sum(llmgw_leader)", "leaders"),
                Query("sum(llmgw_agents_connected)", "agents"),
                Query("sum(llmgw_feed_followers)", "followers"),
            ),
            least=0,
        ),
        Panel(
            "Passes",
            shows="Seconds since each background pass last ended.",
            empty="while no control plane is scraped",
            queries=(
                Query("time() - max by (pass) (llmgw_pass_last_run_timestamp_seconds)", "{{pass}}"),
            ),
            unit="s",
            least=0,
        ),
        Panel(
            "Passes that fail",
            shows="Background passes whose last run failed.",
            empty="while no control plane is scraped",
            queries=(Query("max by (pass) (llmgw_pass_failing)", "{{pass}}"),),
            least=0,
            most=1,
        ),
        Panel(
            "Certificates",
            shows="The ten certificates that end first, and in how many seconds.",
            empty="until a node has connected since the control plane started",
            queries=(
                Query(
                    "bottomk(10, min by (role, id) (llmgw_certificate_expiry_timestamp_seconds)"
                    " - time())",
                    "ends in",
                ),
            ),
            kind=TABLE,
            units={"ends in": "s"},
        ),
        Panel(
            "Memory of the control plane",
            shows="Resident memory of the control plane's process.",
            empty="while no control plane is scraped",
            queries=(Query(f"process_resident_memory_bytes {_OURS}", "{{instance}}"),),
            unit="bytes",
            least=0,
        ),
        Panel(
            "Cores of the control plane",
            shows="Cores that the control plane's process uses.",
            empty="while no control plane is scraped",
            queries=(
                Query(f"rate(process_cpu_seconds_total[$__rate_interval]) {_OURS}", "{{instance}}"),
            ),
            least=0,
        ),
    ),
)

DASHBOARD = Dashboard(
    name="fleet",
    title="llmgw: fleet",
    description="Nodes, devices, models and disks of the whole cluster.",
    variables=(),
    rows=(_GLANCE, _DEVICES, _NODES, _MODELS, _STORAGE, _CONTROL),
)
