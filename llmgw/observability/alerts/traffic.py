"""Alerts about models and users' requests."""

from llmgw.observability.alert import CRITICAL, WARNING, Alert, Case, Group
from llmgw.observability.alerts.series import MODEL, series
from llmgw.observability.alerts.waiting import QUEUE_FULL, QUEUE_SLOW, UNREACHED

DOWN = Alert(
    name="LlmgwModelDown",
    expr="llmgw_replicas_wanted > 0 and llmgw_replicas_serving == 0",
    hold="5m",
    severity=CRITICAL,
    summary="{{ $labels.model }} is not served",
    description="Replicas wanted: {{ $value }}. None serves: requests are refused, or go to what"
    " is left on lost nodes.",
    meaning="A model of the catalog has no replica to which requests could go, unless on a node"
    " that the control plane has lost.",
    steps="""
        - `llmgw ctl replicas` shows what became of its replicas, with the cause of a
          failure.
        - `llmgw ctl explain MODEL` says for each node why it takes no replica.
        - `llmgw ctl logs NODE -s REPLICA/RANK` has an engine's last words.
    """,
    cases=(
        Case(
            at="6m",
            series={
                series("llmgw_replicas_wanted", MODEL): "2x10",
                series("llmgw_replicas_serving", MODEL): "0x10",
            },
            fires=(MODEL,),
            value="2",
        ),
        Case(
            at="6m",
            series={
                series("llmgw_replicas_wanted", MODEL): "2x10",
                series("llmgw_replicas_serving", MODEL): "0 0 1x10",
            },
        ),
        Case(
            at="6m",
            series={
                series("llmgw_replicas_wanted", MODEL): "0x10",
                series("llmgw_replicas_serving", MODEL): "0x10",
            },
        ),
    ),
)

FEWER = Alert(
    name="LlmgwReplicasMissing",
    expr="llmgw_replicas_wanted > llmgw_replicas_serving and llmgw_replicas_serving > 0",
    hold="15m",
    severity=WARNING,
    summary="{{ $labels.model }} is served by fewer replicas than wanted",
    description="Replicas wanted: {{ $value }}. Fewer have served for a quarter of an hour.",
    meaning="Some of a model's replicas do not serve: they start, fail, or find no place.",
    steps="""
        - `llmgw ctl replicas` shows their states; a large model may just be loading.
        - `llmgw ctl explain MODEL` says for each node why it takes no replica.
    """,
    cases=(
        Case(
            at="16m",
            series={
                series("llmgw_replicas_wanted", MODEL): "3x20",
                series("llmgw_replicas_serving", MODEL): "2x20",
            },
            fires=(MODEL,),
            value="3",
        ),
        Case(
            at="16m",
            series={
                series("llmgw_replicas_wanted", MODEL): "3x20",
                series("llmgw_replicas_serving", MODEL): "2x10 3x10",
            },
        ),
    ),
)

REFUSED = Alert(
    name="LlmgwReplicasRefused",
    expr="llmgw_replicas_refused > 0",
    hold="15m",
    severity=WARNING,
    summary="{{ $labels.model }}: replicas that find no place: {{ $value }}",
    description="They have been wanted for a quarter of an hour and no node takes them.",
    meaning="Placement turned down every node for a wanted replica.",
    steps="""
        - `llmgw ctl explain MODEL` says for each node why it takes no replica.
        - `llmgw ctl plan` shows the last decision; a node that is cordoned, full or
          unhealthy is the usual reason.
        - Nothing fits by its nature (no such device): change the profile, or add a node.
    """,
    cases=(
        Case(
            at="16m",
            series={series("llmgw_replicas_refused", MODEL): "1x20"},
            fires=(MODEL,),
            value="1",
        ),
        Case(at="16m", series={series("llmgw_replicas_refused", MODEL): "1x9 0x20"}),
    ),
)

FAILING = Alert(
    name="LlmgwRequestsFailing",
    expr="""sum by (model) (rate(llmgw_requests_total{code=~"5.."}[5m]))
/ sum by (model) (rate(llmgw_requests_total[5m])) > 0.05""",
    hold="5m",
    severity=CRITICAL,
    summary="{{ $labels.model }}: {{ $value | humanizePercentage }} of requests fail",
    description="More than one request in twenty has been answered with a server's error (5xx) for"
    " five minutes.",
    meaning="Users get errors: no replica serves, engines fail while they answer, or everything is"
    " full (503).",
    steps="""
        - The traffic dashboard shows which status it is. 503: no replica has room or none
          serves; 502 and 504: an engine broke off or did not answer.
        - `llmgw ctl replicas`, then `llmgw ctl logs NODE -s REPLICA/RANK` of one that
          fails.
        - The gateway's log names replica and cause of each failure.
    """,
    cases=(
        Case(
            at="15m",
            series={
                series("llmgw_requests_total", MODEL, code="200"): "0+90x20",
                series("llmgw_requests_total", MODEL, code="502"): "0+10x20",
            },
            fires=(MODEL,),
            value="10%",
        ),
        Case(
            at="15m",
            series={
                series("llmgw_requests_total", MODEL, code="200"): "0+98x20",
                series("llmgw_requests_total", MODEL, code="502"): "0+2x20",
                series("llmgw_requests_total", MODEL, code="429"): "0+50x20",
            },
        ),
        Case(
            at="15m",
            series={
                series("llmgw_requests_total", MODEL, code="200"): "5x20",
                series("llmgw_requests_total", MODEL, code="502"): "5x20",
            },
        ),
    ),
)

FIRST_TOKEN = Alert(
    name="LlmgwFirstTokenSlow",
    expr="histogram_quantile(0.99, sum by (model, le)"
    " (rate(llmgw_time_to_first_token_seconds_bucket[10m]))) > 10",
    hold="10m",
    severity=WARNING,
    summary="{{ $labels.model }}: the first token takes long",
    description="One streamed request in a hundred waits {{ $value | humanizeDuration }} or longer"
    " for its first token.",
    meaning="Requests wait in an engine's queue, or prompts are longer than its prefill copes"
    " with.",
    steps="""
        - The traffic dashboard shows what is in flight: many more requests than the replicas take
          at once wait in the engines' queues, and the model needs more replicas or concurrency.
        - Few are in flight: long prompts; compare prompt tokens per request with usual days.
        - The GPU dashboard shows whether a device is slowed down by heat or power.
    """,
    cases=(
        Case(
            at="25m",
            series={
                series("llmgw_time_to_first_token_seconds_bucket", MODEL, le="10.0"): "0x30",
                series("llmgw_time_to_first_token_seconds_bucket", MODEL, le="20.0"): "0+100x30",
                series("llmgw_time_to_first_token_seconds_bucket", MODEL, le="+Inf"): "0+100x30",
            },
            fires=(MODEL,),
            value="19.9s",
        ),
        Case(
            at="25m",
            series={
                series("llmgw_time_to_first_token_seconds_bucket", MODEL, le="10.0"): "0+100x30",
                series("llmgw_time_to_first_token_seconds_bucket", MODEL, le="+Inf"): "0+100x30",
            },
        ),
        Case(
            at="25m",
            series={
                series("llmgw_time_to_first_token_seconds_bucket", MODEL, le="10.0"): "0x30",
                series("llmgw_time_to_first_token_seconds_bucket", MODEL, le="+Inf"): "7x30",
            },
        ),
    ),
)

STUCK = Alert(
    name="LlmgwRequestsStuck",
    expr="""sum by (model) (llmgw_requests_in_flight) > 0
unless sum by (model) (increase(llmgw_requests_total[10m])) > 0""",
    hold="10m",
    severity=WARNING,
    summary="{{ $labels.model }}: requests are in flight and none is answered",
    description="Requests in flight: {{ $value }}. For twenty minutes none was answered.",
    meaning="Gateways wait for engines that do not end any request: an engine hangs, or replies are"
    " longer than anybody reads.",
    steps="""
        - The node dashboard shows whether the engine's processes use any core, the GPU dashboard
          whether its devices draw power.
        - They do not: the engine hangs. `llmgw ctl logs NODE -s REPLICA/RANK` has its last words.
        - They do: look for replies without an end; set a limit to tokens in the clients.
    """,
    cases=(
        Case(
            at="25m",
            series={
                series("llmgw_requests_in_flight", MODEL): "3x30",
                series("llmgw_requests_total", MODEL, code="200"): "7x30",
            },
            fires=(MODEL,),
            value="3",
        ),
        Case(
            at="25m",
            series={
                series("llmgw_requests_in_flight", MODEL): "3x30",
                series("llmgw_requests_total", MODEL, code="200"): "7x20 8x10",
            },
        ),
        Case(
            at="25m",
            series={
                series("llmgw_requests_in_flight", MODEL): "0x30",
                series("llmgw_requests_total", MODEL, code="200"): "7x30",
            },
        ),
    ),
)

BROKEN = Alert(
    name="LlmgwRepliesBroken",
    expr='increase(llmgw_stream_aborts_total{side="engine"}[15m]) > 5',
    hold="0m",
    severity=WARNING,
    summary="{{ $labels.model }}: engines break off replies",
    description="Replies that the engine cut short in 15 minutes: {{ $value | humanize }}.",
    meaning="Streams that had begun ended early because the engine closed them: users see half a"
    " reply. What had not begun is tried on another replica and is not counted here.",
    steps="""
        - `llmgw ctl replicas`: did one fail or restart at that time, and with what cause?
        - `llmgw ctl logs NODE -s REPLICA/RANK` of that one.
    """,
    cases=(
        Case(
            at="15m",
            series={series("llmgw_stream_aborts_total", MODEL, side="engine"): "0+1x20"},
            fires=({**MODEL, "side": "engine"},),
            value="15",
        ),
        Case(
            at="15m",
            series={
                series("llmgw_stream_aborts_total", MODEL, side="engine"): "0x9 2x20",
                series("llmgw_stream_aborts_total", MODEL, side="client"): "0+9x20",
            },
        ),
    ),
)

GROUP = Group(
    name="llmgw-traffic",
    title="Models and requests",
    alerts=(
        DOWN,
        FEWER,
        REFUSED,
        FAILING,
        QUEUE_FULL,
        QUEUE_SLOW,
        FIRST_TOKEN,
        STUCK,
        BROKEN,
        UNREACHED,
    ),
)
