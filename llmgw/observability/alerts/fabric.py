"""Alerts about ports, the fabrics they are plugged into, and NVLink domains."""

from llmgw.observability.alert import CRITICAL, INFO, WARNING, Alert, Case, Group
from llmgw.observability.alerts.series import GPU, NODE, PORT, series

_UP = {"state": "ACTIVE", "phys_state": "LinkUp", "link_layer": "InfiniBand"}
_DOWN = {"state": "DOWN", "phys_state": "Polling", "link_layer": "InfiniBand"}
_INIT = {"state": "INIT", "phys_state": "LinkUp", "link_layer": "InfiniBand"}
_FABRIC = {"fabric": "0x0002c9030065f6c0"}
_SECOND = {"fabric": "0x0002c9030065f6d0"}
_SECOND_PORT = {**PORT, "adapter": "mlx5_7"}
_DOMAIN = {**GPU, "cluster_uuid": "6f2e9f0a-0000-0000-0000-00000000ab01", "clique": "1"}

_ERRORS = (
    "symbol_error|link_error_recovery|port_rcv_errors|port_rcv_remote_physical_errors"
    "|local_link_integrity_errors|excessive_buffer_overrun_errors"
)

_BY_PORT = "max by (node, adapter, port, link_layer)"
"""The state is a label, so a port that changes it is another series."""

PORT_DOWN = Alert(
    name="LlmgwPortDown",
    expr=f"{_BY_PORT} (llmgw_ib_port_active) == 0"
    f" and {_BY_PORT} (max_over_time(llmgw_ib_port_active[1d])) == 1",
    hold="2m",
    severity=CRITICAL,
    summary="{{ $labels.node }}: port {{ $labels.adapter }}/{{ $labels.port }} went down",
    description="The {{ $labels.link_layer }} port was active within the last day and is not now.",
    meaning="A port that carried traffic does so no more. Replicas over several nodes that use it"
    " stop or become slow. A port that was never plugged in does not fire.",
    steps="""
        - `llmgw ctl node NODE` shows its state: `polling` is a link without a partner
          (cable, transceiver, switch port), `disabled` was switched off.
        - Look at the other end: is the switch up, are its other ports?
        - `ibstat` and, with permission, `iblinkinfo` on the node name the partner.
    """,
    cases=(
        Case(
            at="8m",
            series={
                series("llmgw_ib_port_active", {**PORT, **_UP}): "1 1 1 stale",
                series("llmgw_ib_port_active", {**PORT, **_DOWN}): "_ _ _ 0x20",
            },
            fires=({**PORT, "link_layer": "InfiniBand"},),
        ),
        Case(at="8m", series={series("llmgw_ib_port_active", {**PORT, **_DOWN}): "0x20"}),
        Case(at="8m", series={series("llmgw_ib_port_active", {**PORT, **_UP}): "1 1 1 stale"}),
    ),
)

PORT_WAITS = Alert(
    name="LlmgwPortNotConfigured",
    expr='llmgw_ib_port_active{link_layer="InfiniBand",phys_state="LinkUp",state=~"INIT|ARMED"}'
    " == 0",
    hold="5m",
    severity=WARNING,
    summary="{{ $labels.node }}: port {{ $labels.adapter }}/{{ $labels.port }} waits for a subnet"
    " manager",
    description="Its link is up, but for five minutes no subnet manager has activated it"
    " ({{ $labels.state }}).",
    meaning="The cable is right, but nothing gives the port an address: no subnet manager runs on"
    " that fabric, or it does not reach or does not want this port.",
    steps="""
        - Does a subnet manager run (opensm, UFM, or one in a switch)? `sminfo` on a node
          whose ports are active tells.
        - One port of many: its log says why (a partition key, a duplicate GUID).
    """,
    cases=(
        Case(
            at="6m",
            series={series("llmgw_ib_port_active", {**PORT, **_INIT}): "0x10"},
            fires=({**PORT, **_INIT},),
        ),
        Case(
            at="6m",
            series={
                series("llmgw_ib_port_active", {**PORT, **_INIT}): "0 0 stale",
                series("llmgw_ib_port_active", {**PORT, **_DOWN}): "0x10",
            },
        ),
    ),
)

PORT_ERRORS = Alert(
    name="LlmgwPortErrors",
    expr=f'increase(llmgw_ib_port_counter_total{{counter=~"{_ERRORS}"}}[30m]) > 10',
    hold="10m",
    severity=WARNING,
    summary="{{ $labels.node }}: port {{ $labels.adapter }}/{{ $labels.port }} counts"
    " {{ $labels.counter }}",
    description="{{ $value | humanize }} more in half an hour.",
    meaning="A link returns errors: what was sent is sent again, and the fabric as a whole becomes"
    " slow, since every flow over that link waits.",
    steps="""
        - Reseat or replace the cable or transceiver of that port; dirt on a fibre is the
          usual reason.
        - `port_rcv_remote_physical_errors` come from further away: look at the partner's
          counters.
        - Counters stop at their most (255, 15); reset them with `perfquery -R` to see them
          move.
    """,
    cases=(
        Case(
            at="45m",
            series={series("llmgw_ib_port_counter_total", PORT, counter="symbol_error"): "0+2x60"},
            fires=({**PORT, "counter": "symbol_error"},),
            value="60",
        ),
        Case(
            at="45m",
            series={
                series("llmgw_ib_port_counter_total", PORT, counter="symbol_error"): "3x20 5x60",
                series("llmgw_ib_port_counter_total", PORT, counter="port_xmit_data"): "0+99x60",
            },
        ),
    ),
)

PORT_FLAPS = Alert(
    name="LlmgwPortFlaps",
    expr="increase(llmgw_ib_port_flaps_total[1h]) > 2",
    hold="0m",
    severity=WARNING,
    summary="{{ $labels.node }}: port {{ $labels.adapter }}/{{ $labels.port }} comes and goes",
    description="Times that its link went down within an hour: {{ $value | humanize }}.",
    meaning="A link that is lost again and again breaks every replica that works over it.",
    steps="""
        - Reseat or replace the cable or transceiver.
        - Many ports of one switch at once: the switch itself, or its power.
    """,
    cases=(
        Case(
            at="60m",
            series={series("llmgw_ib_port_flaps_total", PORT): "4x20 5x10 6x10 7x10 8x20"},
            fires=(PORT,),
            value="4",
        ),
        Case(at="60m", series={series("llmgw_ib_port_flaps_total", PORT): "4x20 5x60"}),
        Case(at="60m", series={series("llmgw_ib_port_flaps_total", PORT): "9x20 0x60"}),
    ),
)

MASTERS = Alert(
    name="LlmgwFabricSeveralMasters",
    expr='llmgw_fabric_problems{problem="several_masters"} > 0',
    hold="5m",
    severity=CRITICAL,
    summary="Fabric {{ $labels.fabric }} has more than one master subnet manager",
    description="{{ $value }} too many: they undo each other's routes.",
    meaning="Two subnet managers think that they are master of one fabric. Routes and addresses"
    " change back and forth, and transfers break.",
    steps="""
        - `saquery SMIR` or `sminfo` on nodes of the fabric lists them;
          `llmgw ctl node NODE` shows which one each port sees.
        - Stop all but one, or give them one priority order and the same configuration.
        - Two fabrics that were joined by a cable by accident look the same: undo the cable.
    """,
    cases=(
        Case(
            at="6m",
            series={series("llmgw_fabric_problems", _FABRIC, problem="several_masters"): "1x10"},
            fires=({**_FABRIC, "problem": "several_masters"},),
            value="1",
        ),
        Case(
            at="6m",
            series={
                series("llmgw_fabric_problems", _FABRIC, problem="several_masters"): "1 1 0x10",
                series("llmgw_fabric_problems", _FABRIC, problem="no_standby"): "1x10",
            },
        ),
    ),
)

_SAW = "max by (fabric, node, adapter, port) (max_over_time(llmgw_ib_port_master[1d]))"
_IS_THAT_PORT = "on (node, adapter, port)"

NO_MASTER = Alert(
    name="LlmgwFabricNoMaster",
    expr=f"""count by (fabric) (
  {_SAW}
  and {_IS_THAT_PORT} llmgw_ib_port_active{{link_layer="InfiniBand"}} == 1
  unless {_IS_THAT_PORT} llmgw_ib_port_master
)
unless count by (fabric) ({_SAW} and {_IS_THAT_PORT} llmgw_ib_port_master)""",
    hold="10m",
    severity=CRITICAL,
    summary="No subnet manager is master of fabric {{ $labels.fabric }} any more",
    description="Active ports that saw this master within a day and see none now: {{ $value }}.",
    meaning="Ports saw a master subnet manager within the last day, and none of them sees one now,"
    " neither that one nor another that took its place. Ports that are active stay so for a while;"
    " a port that comes up, or a link that changes, is not routed. A fabric that had several"
    " masters one after the other within the day is told of under each.",
    steps="""
        - Start the subnet manager again (opensm, UFM, or the one in a switch).
        - `sminfo` on a node says whether there is one: if it answers, the agents may have
          lost the permission to ask; `llmgw ctl node NODE` shows the probe.
    """,
    cases=(
        Case(
            at="25m",
            series={
                series("llmgw_ib_port_active", {**PORT, **_UP}): "1x40",
                series("llmgw_ib_port_master", {**PORT, **_FABRIC}): "1 1 1 stale",
            },
            fires=(_FABRIC,),
            value="1",
        ),
        # Of two fabrics one has lost its master.
        Case(
            at="25m",
            series={
                series("llmgw_ib_port_active", {**PORT, **_UP}): "1x40",
                series("llmgw_ib_port_active", {**_SECOND_PORT, **_UP}): "1x40",
                series("llmgw_ib_port_master", {**PORT, **_FABRIC}): "1 1 1 stale",
                series("llmgw_ib_port_master", {**_SECOND_PORT, **_SECOND}): "1x40",
            },
            fires=(_FABRIC,),
            value="1",
        ),
        # Another one took its place.
        Case(
            at="25m",
            series={
                series("llmgw_ib_port_active", {**PORT, **_UP}): "1x40",
                series("llmgw_ib_port_master", {**PORT, **_FABRIC}): "1 1 1 stale",
                series("llmgw_ib_port_master", {**PORT, **_SECOND}): "_ _ _ _ 1x40",
            },
        ),
        # One port of two sees it no more: that is the port's fault.
        Case(
            at="25m",
            series={
                series("llmgw_ib_port_active", {**PORT, **_UP}): "1x40",
                series("llmgw_ib_port_active", {**_SECOND_PORT, **_UP}): "1x40",
                series("llmgw_ib_port_master", {**PORT, **_FABRIC}): "1 1 1 stale",
                series("llmgw_ib_port_master", {**_SECOND_PORT, **_FABRIC}): "1x40",
            },
        ),
        Case(at="25m", series={series("llmgw_ib_port_active", {**PORT, **_UP}): "1x40"}),
    ),
)

NO_STANDBY = Alert(
    name="LlmgwFabricNoStandby",
    expr='llmgw_fabric_problems{problem="no_standby"} > 0',
    hold="1h",
    severity=INFO,
    summary="Fabric {{ $labels.fabric }} has a single subnet manager",
    description="If it ends, nothing takes its place.",
    meaning="One subnet manager serves the fabric and there is no standby.",
    steps="""
        - Run a second one with a lower priority on another machine or switch.
        - One on purpose: silence this alert for the fabric.
    """,
    cases=(
        Case(
            at="61m",
            series={series("llmgw_fabric_problems", _FABRIC, problem="no_standby"): "1x70"},
            fires=({**_FABRIC, "problem": "no_standby"},),
        ),
        Case(
            at="61m",
            series={series("llmgw_fabric_problems", _FABRIC, problem="no_standby"): "1x9 0x70"},
        ),
    ),
)

IMEX = Alert(
    name="LlmgwImexDown",
    expr="""(llmgw_imex_up == 0 or llmgw_imex_channels == 0)
and on (node) llmgw_gpu_nvlink_joined == 0""",
    hold="5m",
    severity=CRITICAL,
    summary="{{ $labels.node }}: nvidia-imex does not run, or has no channel",
    description="Its GPUs belong to an NVLink domain, which carries nothing without it.",
    meaning="The node's GPUs belong to an NVLink domain of several machines, but the service that"
    " shares their memory does not run, or was given no channel: replicas over these nodes do not"
    " start.",
    steps="""
        - `systemctl status nvidia-imex` and its journal on the node.
        - `nvidia-imex-ctl -N` lists the domain's nodes; `/etc/nvidia-imex/nodes_config.cfg`
          has to be the same on all of them.
        - It runs: `ls /dev/nvidia-caps-imex-channels` has to list a channel; the driver makes one
          with `NVreg_CreateImexChannel0=1`, or `mknod` does.
    """,
    cases=(
        Case(
            at="6m",
            series={
                series("llmgw_imex_up", NODE): "0x10",
                series("llmgw_imex_channels", NODE): "0x10",
                series("llmgw_gpu_nvlink_joined", _DOMAIN): "0x10",
            },
            fires=(NODE,),
        ),
        Case(
            at="6m",
            series={
                series("llmgw_imex_up", NODE): "1x10",
                series("llmgw_imex_channels", NODE): "0x10",
                series("llmgw_gpu_nvlink_joined", _DOMAIN): "0x10",
            },
            fires=(NODE,),
        ),
        Case(
            at="6m",
            series={
                series("llmgw_imex_up", NODE): "0 0 1x10",
                series("llmgw_imex_channels", NODE): "1x10",
                series("llmgw_gpu_nvlink_joined", _DOMAIN): "0 0 1x10",
            },
        ),
        # A machine of one cluster of zeros has no domain to join.
        Case(at="6m", series={series("llmgw_imex_up", NODE): "0x10"}),
    ),
)

GROUP = Group(
    name="llmgw-fabric",
    title="Ports and fabrics",
    alerts=(
        PORT_DOWN,
        PORT_WAITS,
        PORT_ERRORS,
        PORT_FLAPS,
        MASTERS,
        NO_MASTER,
        NO_STANDBY,
        IMEX,
    ),
)
