"""Alerts on the live samples of devices."""

from llmgw.observability.alert import INFO, WARNING, Alert, Case, Group
from llmgw.observability.alerts.series import GPU, MODEL, series

_HELD = {**GPU, "model": "llama", "replica": "llama-7k2m9q"}

_IDLE = """(
  llmgw_gpu_memory_used_bytes / llmgw_gpu_memory_bytes > 0.1
  and on (node, gpu, uuid) llmgw_gpu_busy_ratio < 0.02
)"""
"""A device of which memory is held while next to nothing runs."""


def _samples(busy: str, used: str = "40x70") -> dict[str, str]:
    return {
        series("llmgw_gpu_busy_ratio", GPU): busy,
        series("llmgw_gpu_memory_used_bytes", GPU): used,
        series("llmgw_gpu_memory_bytes", GPU): "80x70",
    }


_HELD_BY_MODEL = {series("llmgw_gpu_held", _HELD): "1x70"}

IDLE_MODEL_DEVICE = Alert(
    name="LlmgwGpuHeldIdle",
    expr=f"llmgw_gpu_held * on (node, gpu, uuid) group_left () {_IDLE}",
    hold="1h",
    severity=INFO,
    summary="{{ $labels.model }} holds GPU {{ $labels.gpu }} of {{ $labels.node }} and does"
    " nothing with it",
    description="For an hour replica {{ $labels.replica }} has held"
    " {{ $value | humanizePercentage }} of the memory of {{ $labels.uuid }} while hardly any"
    " kernel ran.",
    meaning="A model's replica holds a device, and next to nothing has run on it for an hour. A"
    " fleet may be full of models that nobody asks for.",
    steps="""
        - `llmgw ctl usage --since 7d` tells who asked for it, and when.
        - Nobody: lower its `replicas` (`llmgw ctl model add FILE`) or remove the model
          (`llmgw ctl model rm NAME`).
        - Somebody: requests may reach other replicas alone; compare them on the traffic
          dashboard.
    """,
    cases=(
        Case(
            at="61m",
            series={**_samples("0.01x70"), **_HELD_BY_MODEL},
            fires=(_HELD,),
            value="50%",
        ),
        Case(at="61m", series={**_samples("0.01x30 0.9 0.01x40"), **_HELD_BY_MODEL}),
        Case(at="61m", series={**_samples("_x70"), **_HELD_BY_MODEL}),
        Case(at="61m", series={**_samples("0.01x70", used="1x70"), **_HELD_BY_MODEL}),
    ),
)

IDLE_FOREIGN_DEVICE = Alert(
    name="LlmgwGpuHeldByOthersIdle",
    expr=f"{_IDLE} unless on (node, gpu, uuid) llmgw_gpu_held",
    hold="1h",
    severity=INFO,
    summary="GPU {{ $labels.gpu }} of {{ $labels.node }} is held by something that does nothing",
    description="For an hour processes that are none of llmgw's have held"
    " {{ $value | humanizePercentage }} of the memory of {{ $labels.uuid }} while hardly any"
    " kernel ran.",
    meaning="Something other than llmgw's engines keeps memory of a device, and nothing runs there."
    " Placement leaves the device alone meanwhile.",
    steps="""
        - `llmgw ctl node NODE` lists the foreign processes with their pids and memory.
        - A forgotten notebook or job: ask its owner, or end it.
        - No process at all: memory that a killed one left; reset the card
          (`nvidia-smi --gpu-reset -i GPU`).
    """,
    cases=(
        Case(at="61m", series=_samples("0.01x70"), fires=(GPU,), value="50%"),
        Case(at="61m", series={**_samples("0.01x70"), **_HELD_BY_MODEL}),
        Case(at="61m", series=_samples("0.01x30 0.9 0.01x40")),
    ),
)

_IDLE_MODEL = """llmgw_replicas_serving > 0
unless on (model) sum by (model) (increase(llmgw_requests_total[1h])) > 0
unless on (model) sum by (model) (llmgw_requests_total unless llmgw_requests_total offset 1h) > 0
unless on (model) llmgw_requests_in_flight > 0"""
"""`increase` does not see the request with which a series begins: the second line does."""

MODEL_IDLE = Alert(
    name="LlmgwModelIdle",
    expr=_IDLE_MODEL,
    hold="1h",
    severity=INFO,
    summary="Nobody asks for {{ $labels.model }}",
    description="Replicas that serve and were asked for nothing in hours: {{ $value }}.",
    meaning="A model is served that got no request for at least an hour. What it holds could serve"
    " others.",
    steps="""
        - `llmgw ctl usage --since 7d` tells when it was last asked for, and by whom.
        - Lower its `replicas` or remove it: `llmgw ctl model rm NAME`.
    """,
    cases=(
        Case(
            at="125m",
            series={
                series("llmgw_replicas_serving", MODEL): "2x130",
                series("llmgw_requests_total", MODEL, code="200"): "7x130",
            },
            fires=(MODEL,),
            value="2",
        ),
        Case(
            at="65m",
            series={series("llmgw_replicas_serving", MODEL): "2x70"},
            fires=(MODEL,),
            value="2",
        ),
        Case(
            at="125m",
            series={
                series("llmgw_replicas_serving", MODEL): "2x130",
                series("llmgw_requests_total", MODEL, code="200"): "7x100 8x30",
            },
        ),
        Case(
            at="65m",
            series={
                series("llmgw_replicas_serving", MODEL): "2x70",
                series("llmgw_requests_total", MODEL, code="200"): "_x50 1x20",
            },
        ),
        Case(at="65m", series={series("llmgw_replicas_serving", MODEL): "0x70"}),
    ),
)

NO_SAMPLE = Alert(
    name="LlmgwGpuNoSample",
    expr="llmgw_gpu_sample_missing == 1",
    hold="5m",
    severity=WARNING,
    summary="GPU {{ $labels.gpu }} of {{ $labels.node }} reports nothing",
    description="The node is there, but {{ $labels.uuid }} has had no reading for five minutes.",
    meaning="A device of a node that answers is not measured: its driver does not answer, or the"
    " tool that asks it hangs.",
    steps="""
        - `llmgw ctl node NODE` lists the probes with their ages and what they failed with.
        - Run `nvidia-smi` on the node. It hangs: a process in state D or an XID in `dmesg`;
          drain the node and reboot.
        - It answers: `llmgw ctl logs NODE` shows why the agent does not read it.
    """,
    cases=(
        Case(at="6m", series={series("llmgw_gpu_sample_missing", GPU): "1x10"}, fires=(GPU,)),
        Case(at="6m", series={series("llmgw_gpu_sample_missing", GPU): "1 1 0x10"}),
        Case(at="6m", series={series("llmgw_gpu_sample_missing", GPU): "1 1 stale"}),
    ),
)

MEMORY_FULL = Alert(
    name="LlmgwGpuMemoryFull",
    expr="llmgw_gpu_memory_used_bytes / llmgw_gpu_memory_bytes > 0.98",
    hold="10m",
    severity=WARNING,
    summary="GPU {{ $labels.gpu }} of {{ $labels.node }}: its memory is full",
    description="{{ $value | humanizePercentage }} of the memory of {{ $labels.uuid }} is in use.",
    meaning="The device has no memory left: the next allocation of an engine fails, often in the"
    " middle of a request.",
    steps="""
        - `llmgw ctl node NODE` shows what is placed there and which foreign processes hold
          memory.
        - Foreign processes: end them, or keep the node for them
          (`llmgw ctl node cordon NODE`).
        - The engine itself: give its profile less context or concurrency, or a lower share
          of memory in its arguments.
    """,
    cases=(
        Case(
            at="11m",
            series={
                series("llmgw_gpu_memory_used_bytes", GPU): "99x15",
                series("llmgw_gpu_memory_bytes", GPU): "100x15",
            },
            fires=(GPU,),
            value="99%",
        ),
        Case(
            at="11m",
            series={
                series("llmgw_gpu_memory_used_bytes", GPU): "95x15",
                series("llmgw_gpu_memory_bytes", GPU): "100x15",
            },
        ),
        Case(at="11m", series={series("llmgw_gpu_memory_bytes", GPU): "100x15"}),
    ),
)

GROUP = Group(
    name="llmgw-device-use",
    title="Use of devices",
    alerts=(IDLE_MODEL_DEVICE, IDLE_FOREIGN_DEVICE, MODEL_IDLE, NO_SAMPLE, MEMORY_FULL),
)
