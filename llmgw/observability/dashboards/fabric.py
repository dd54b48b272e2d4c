"""Ports, the fabrics they are plugged into, and NVLink domains."""

from llmgw.observability.dashboards.choices import FABRIC, NODE
from llmgw.observability.panel import STATES, TABLE, Dashboard, Panel, Query, Row, Step

_N = 'node=~"$node"'
_F = 'fabric=~"$fabric"'
_PORT = "{{node}} {{adapter}}/{{port}}"
_NONE = "on nodes without InfiniBand or RoCE"

_ERRORS = (
    "symbol_error|link_error_recovery|port_rcv_errors|port_rcv_remote_physical_errors"
    "|local_link_integrity_errors|excessive_buffer_overrun_errors|port_xmit_discards"
)


def _counted(counter: str) -> str:
    return f'llmgw_ib_port_counter_total{{{_N},counter=~"{counter}"}}'


_PORTS = Row(
    "Ports",
    (
        Panel(
            "Ports",
            shows="Each port's state, 1 where it carries traffic.",
            empty=_NONE,
            queries=(Query(f"llmgw_ib_port_active{{{_N}}}", "active"),),
            kind=TABLE,
            width=12,
        ),
        Panel(
            "Ports that carry traffic",
            shows="How long each port was active.",
            empty=_NONE,
            queries=(Query(f"max by (node, adapter, port) (llmgw_ib_port_active{{{_N}}})", _PORT),),
            kind=STATES,
            width=12,
            base="red",
            steps=(Step("green", 1),),
        ),
        Panel(
            "Rate",
            shows="Rate at which each port's link was trained.",
            empty=f"{_NONE}, and for ports without a link",
            queries=(Query(f"1e9 * llmgw_ib_port_rate_gbps{{{_N}}}", _PORT),),
            unit="bps",
            least=0,
        ),
        Panel(
            "Received",
            shows="Data that each port receives; the counter is in words of four bytes.",
            empty=_NONE,
            queries=(Query(f"32 * rate({_counted('port_rcv_data')}[$__rate_interval])", _PORT),),
            unit="bps",
            least=0,
        ),
        Panel(
            "Sent",
            shows="Data that each port sends; the counter is in words of four bytes.",
            empty=_NONE,
            queries=(Query(f"32 * rate({_counted('port_xmit_data')}[$__rate_interval])", _PORT),),
            unit="bps",
            least=0,
        ),
        Panel(
            "Errors",
            shows="Errors that ports counted in five minutes. Counters stop at their most.",
            empty=_NONE,
            queries=(Query(f"increase({_counted(_ERRORS)}[5m])", f"{_PORT} {{{{counter}}}}"),),
            least=0,
        ),
        Panel(
            "Waited to send",
            shows="Ticks each second in which a port had data and could not send it: congestion."
            " How long a tick is differs from adapter to adapter.",
            empty=f"{_NONE}, and for ports without that counter",
            queries=(Query(f"rate({_counted('port_xmit_wait')}[$__rate_interval])", _PORT),),
            least=0,
        ),
        Panel(
            "Links that went down",
            shows="How often each port's link went down within an hour.",
            empty=_NONE,
            queries=(Query(f"increase(llmgw_ib_port_flaps_total{{{_N}}}[1h])", _PORT),),
            least=0,
        ),
    ),
)

_FABRICS = Row(
    "Fabrics",
    (
        Panel(
            "Masters",
            shows="Each fabric's master subnet managers: there should be one.",
            empty="for RoCE, and where no node can ask",
            queries=(Query(f"llmgw_fabric_master_sm{{{_F}}}", ""),),
            kind=TABLE,
            hidden=("Value",),
        ),
        Panel(
            "Nodes and subnet managers",
            shows="Nodes with a port on each fabric, and its subnet managers.",
            empty="while no node is on a fabric; subnet managers for RoCE too",
            queries=(
                Query(f"llmgw_fabric_nodes{{{_F}}}", "{{fabric}} nodes"),
                Query(f"llmgw_fabric_subnet_managers{{{_F}}}", "{{fabric}} subnet managers"),
            ),
            least=0,
        ),
        Panel(
            "Problems",
            shows="What is wrong with each fabric: masters too many, no standby.",
            empty="for RoCE, and where no node can list the subnet managers",
            queries=(Query(f"llmgw_fabric_problems{{{_F}}}", "{{fabric}} {{problem}}"),),
            least=0,
        ),
    ),
)

_NVLINK = Row(
    "NVLink domains",
    (
        Panel(
            "Joined",
            shows="Devices in an NVLink domain of several machines, 1 where they have joined it.",
            empty="for devices in no such domain (a single machine's NVSwitch is none), and where"
            " it is not known whether nvidia-imex runs",
            queries=(Query(f"llmgw_gpu_nvlink_joined{{{_N}}}", "joined"),),
            kind=TABLE,
            width=16,
        ),
        Panel(
            "IMEX",
            shows="Whether nvidia-imex runs on a node, and how many channels it has: without"
            " either a domain carries nothing.",
            empty="on nodes that do not have it",
            queries=(
                Query(f"llmgw_imex_up{{{_N}}}", "{{node}} runs"),
                Query(f"llmgw_imex_channels{{{_N}}}", "{{node}} channels"),
            ),
            least=0,
        ),
    ),
)

DASHBOARD = Dashboard(
    name="fabric",
    title="llmgw: fabrics",
    description="Ports, InfiniBand and RoCE fabrics, NVLink domains.",
    variables=(NODE, FABRIC),
    rows=(_PORTS, _FABRICS, _NVLINK),
)
