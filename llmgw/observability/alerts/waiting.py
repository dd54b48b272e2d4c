"""Alerts about requests that wait at gateways, or can't go where they should."""

from llmgw.observability.alert import WARNING, Alert, Case
from llmgw.observability.alerts.series import MODEL, series

ENDPOINT = {"gateway": "gw-1", **MODEL, "endpoint": "llama-1"}

QUEUE_FULL = Alert(
    name="LlmgwQueueFull",
    expr='sum by (model) (increase(llmgw_refusals_total{code="queue_full"}[5m])) > 0',
    hold="5m",
    severity=WARNING,
    summary="{{ $labels.model }}: the queue is full and requests are refused",
    description="Requests that were refused in five minutes since as many wait as may:"
    " {{ $value | humanize }}.",
    meaning="Every replica serves as many requests as it may, and `gateway.queue_most` wait at a"
    " worker of a gateway. A burst passes by itself; this has gone on for minutes.",
    steps="""
        - The traffic dashboard shows what waits, and for how long those waited that went on.
        - `llmgw ctl replicas`: do all replicas serve? `llmgw ctl explain MODEL` says why one finds
          no place.
        - They do: the model needs more of them, `llmgw ctl model scale MODEL`, or engines that take
          more at once.
        - One user alone asks for that much: `llmgw ctl usage` shows who; give the key limits.
    """,
    cases=(
        Case(
            at="15m",
            series={series("llmgw_refusals_total", MODEL, code="queue_full"): "0+2x20"},
            fires=(MODEL,),
            value="10",
        ),
        Case(
            at="15m",
            series={
                series("llmgw_refusals_total", MODEL, code="queue_full"): "0x8 9x20",
                series("llmgw_refusals_total", {"model": ""}, code="over_concurrent"): "0+9x20",
            },
        ),
        Case(at="15m", series={series("llmgw_refusals_total", MODEL, code="queue_full"): "7x20"}),
    ),
)

QUEUE_SLOW = Alert(
    name="LlmgwQueueSlow",
    expr="histogram_quantile(0.95, sum by (model, le)"
    " (rate(llmgw_queue_wait_seconds_bucket[10m]))) > 10",
    hold="10m",
    severity=WARNING,
    summary="{{ $labels.model }}: requests wait long for a replica",
    description="Of the requests that had to wait one in twenty waited"
    " {{ $value | humanizeDuration }} or longer.",
    meaning="Replicas are full most of the time, or the model is started again and again for"
    " requests that come while it is stopped.",
    steps="""
        - The traffic dashboard shows what waits and how many replicas serve.
        - The model is stopped when idle: let it stay longer, or keep one replica
          (`llmgw ctl model show MODEL`).
        - Else it needs more replicas: `llmgw ctl model scale MODEL`.
    """,
    cases=(
        Case(
            at="25m",
            series={
                series("llmgw_queue_wait_seconds_bucket", MODEL, le="10.0"): "0x30",
                series("llmgw_queue_wait_seconds_bucket", MODEL, le="30.0"): "0+100x30",
                series("llmgw_queue_wait_seconds_bucket", MODEL, le="+Inf"): "0+100x30",
            },
            fires=(MODEL,),
            value="29s",
        ),
        Case(
            at="25m",
            series={
                series("llmgw_queue_wait_seconds_bucket", MODEL, le="10.0"): "0+100x30",
                series("llmgw_queue_wait_seconds_bucket", MODEL, le="+Inf"): "0+102x30",
            },
        ),
        Case(
            at="25m",
            series={
                series("llmgw_queue_wait_seconds_bucket", MODEL, le="10.0"): "0x30",
                series("llmgw_queue_wait_seconds_bucket", MODEL, le="+Inf"): "7x30",
            },
        ),
    ),
)

UNREACHED = Alert(
    name="LlmgwReplicaUnreached",
    expr="llmgw_endpoint_up == 0"
    " and on (model) sum by (model) (increase(llmgw_requests_total[5m])) > 0",
    hold="5m",
    severity=WARNING,
    summary="{{ $labels.gateway }} can't use {{ $labels.endpoint }} of {{ $labels.model }}",
    description="Its requests there failed, and none has been answered for five minutes, while the"
    " model is asked.",
    meaning="The control plane counts a replica as serving, and a gateway gets no answer from it:"
    " the network between them, a firewall, or an engine that hangs. The gateway uses the other"
    " replicas, and tries this one now and then.",
    steps="""
        - `llmgw ctl events` has the gateway's words: refused, no answer, broken off.
        - Other gateways reach it: look at the way from this one to the replica's node and port.
        - None does: `llmgw ctl logs NODE -s REPLICA/RANK` has the engine's last words.
    """,
    cases=(
        Case(
            at="12m",
            series={
                series("llmgw_endpoint_up", ENDPOINT): "0x20",
                series("llmgw_requests_total", MODEL, code="200"): "0+5x20",
            },
            fires=(ENDPOINT,),
            value="0",
        ),
        Case(
            at="12m",
            series={
                series("llmgw_endpoint_up", ENDPOINT): "0x9 1x20",
                series("llmgw_requests_total", MODEL, code="200"): "0+5x20",
            },
        ),
        Case(
            at="12m",
            series={
                series("llmgw_endpoint_up", ENDPOINT): "0x20",
                series("llmgw_requests_total", MODEL, code="200"): "5x20",
            },
        ),
    ),
)
