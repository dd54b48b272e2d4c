"""Users' requests, by model."""

from llmgw.observability.dashboards.choices import MODEL
from llmgw.observability.panel import Dashboard, Panel, Query, Row

_M = 'model=~"$model"'
_SPAN = "[$__rate_interval]"
_NONE = "until a gateway reported a request for the model"
_NO_MODEL = 'model=""'
_STREAMED = f"{_NONE}, and for models whose replies were never streamed"


def _by_code(counter: str) -> tuple[Query, ...]:
    """Return what is counted by a model's code, and by codes of requests that came to no model."""
    return (
        Query(f"sum by (model, code) (rate({counter}{{{_M}}}{_SPAN}))", "{{model}} {{code}}"),
        Query(f"sum by (code) (rate({counter}{{{_NO_MODEL}}}{_SPAN}))", "{{code}}"),
    )


def _quantiles(histogram: str) -> tuple[Query, ...]:
    buckets = f"sum by (model, le) (rate({histogram}_bucket{{{_M}}}{_SPAN}))"
    return tuple(
        Query(f"histogram_quantile({share}, {buckets})", f"{{{{model}}}} p{percent}")
        for share, percent in (("0.5", 50), ("0.95", 95), ("0.99", 99))
    )


_REQUESTS = Row(
    "Requests",
    (
        Panel(
            "Requests",
            shows="Requests that were answered, each second.",
            empty=_NONE,
            queries=(
                Query(f"sum by (model) (rate(llmgw_requests_total{{{_M}}}{_SPAN}))", "{{model}}"),
            ),
            unit="reqps",
            least=0,
            stacked=True,
        ),
        Panel(
            "By status",
            shows="Requests by the status of their answer, each second.",
            empty=_NONE,
            queries=(
                Query(f"sum by (code) (rate(llmgw_requests_total{{{_M}}}{_SPAN}))", "{{code}}"),
            ),
            unit="reqps",
            least=0,
            stacked=True,
        ),
        Panel(
            "Failing",
            shows="Share of requests that are answered with a server's error (5xx).",
            empty=f"{_NONE}, and while there are none",
            queries=(
                Query(
                    f'(sum by (model) (rate(llmgw_requests_total{{{_M},code=~"5.."}}{_SPAN}))'
                    f" or 0 * sum by (model) (rate(llmgw_requests_total{{{_M}}}{_SPAN})))"
                    f" / sum by (model) (rate(llmgw_requests_total{{{_M}}}{_SPAN}))",
                    "{{model}}",
                ),
            ),
            unit="percentunit",
            least=0,
            most=1,
        ),
        Panel(
            "In flight",
            shows="Requests that gateways are answering now.",
            empty=_NONE,
            queries=(Query(f"sum by (model) (llmgw_requests_in_flight{{{_M}}})", "{{model}}"),),
            least=0,
        ),
        Panel(
            "Replicas",
            shows="Replicas that serve, and that are wanted.",
            empty="for a model that is not in the catalog, and until the known nodes have reported"
            " to a new leader",
            queries=(
                Query(f"llmgw_replicas_serving{{{_M}}}", "{{model}} serving"),
                Query(f"llmgw_replicas_wanted{{{_M}}}", "{{model}} wanted"),
            ),
            least=0,
        ),
    ),
)

_LATENCY = Row(
    "Latency",
    (
        Panel(
            "Time to the first token",
            shows="Half, 95 % and 99 % of streamed requests had their first token by then.",
            empty=_STREAMED,
            queries=_quantiles("llmgw_time_to_first_token_seconds"),
            unit="s",
            least=0,
        ),
        Panel(
            "Between two tokens",
            shows="Half, 95 % and 99 % of streamed replies had this mean time between two tokens,"
            " or less.",
            empty=_STREAMED,
            queries=_quantiles("llmgw_inter_token_seconds"),
            unit="s",
            least=0,
        ),
        Panel(
            "Duration",
            shows="Half, 95 % and 99 % of requests were answered whole by then.",
            empty=_NONE,
            queries=_quantiles("llmgw_request_duration_seconds"),
            unit="s",
            least=0,
        ),
    ),
)

_QUEUE = Row(
    "Waiting and refused",
    (
        Panel(
            "Waiting",
            shows="Requests that wait at gateways: no replica has room, or the model is started.",
            empty=_NONE,
            queries=(Query(f"sum by (model) (llmgw_requests_queued{{{_M}}})", "{{model}}"),),
            least=0,
        ),
        Panel(
            "Time in the queue",
            shows="Half, 95 % and 99 % of the requests that had to wait went on by then.",
            empty=f"{_NONE}, and for models whose requests never waited",
            queries=_quantiles("llmgw_queue_wait_seconds"),
            unit="s",
            least=0,
        ),
        Panel(
            "Refused",
            shows="Requests that were refused for a full queue or a key's limits, each second, by"
            " the code of the refusal.",
            empty="while none was refused",
            queries=_by_code("llmgw_refusals_total"),
            unit="reqps",
            least=0,
        ),
        Panel(
            "Keys over quota",
            shows="Keys of which a request was refused for a limit within the last minute.",
            empty="while no control plane leads",
            queries=(Query("llmgw_keys_over_quota", "keys"),),
            least=0,
        ),
        Panel(
            "Errors by cause",
            shows="Requests that ended with another error of a gateway's, each second, by its"
            " code; those that came to no model by their code alone.",
            empty="while there was none",
            queries=_by_code("llmgw_request_errors_total"),
            unit="reqps",
            width=16,
            least=0,
        ),
    ),
)

_TOKENS = Row(
    "Tokens, and what went wrong",
    (
        Panel(
            "Tokens",
            shows="Tokens of prompts and of completions, each second.",
            empty=_NONE,
            queries=(
                Query(
                    f"sum by (model, direction) (rate(llmgw_tokens_total{{{_M}}}{_SPAN}))",
                    "{{model}} {{direction}}",
                ),
            ),
            least=0,
        ),
        Panel(
            "Tokens a request",
            shows="Tokens of prompt and completion of a request, on average.",
            empty=f"{_NONE}, and while there are none",
            queries=(
                Query(
                    f"sum by (model, direction) (rate(llmgw_tokens_total{{{_M}}}{_SPAN}))"
                    " / on (model) group_left ()"
                    f" sum by (model) (rate(llmgw_requests_total{{{_M}}}{_SPAN}))",
                    "{{model}} {{direction}}",
                ),
            ),
            least=0,
        ),
        Panel(
            "Tried again, broken off",
            shows="Requests that were sent to another replica before their first byte, and replies"
            " that ended early, by who ended them, each second.",
            empty=_NONE,
            queries=(
                Query(
                    f"sum by (model) (rate(llmgw_request_retries_total{{{_M}}}{_SPAN}))",
                    "{{model}} tried again",
                ),
                Query(
                    f"sum by (model, side) (rate(llmgw_stream_aborts_total{{{_M}}}{_SPAN}))",
                    "{{model}} broken off by the {{side}}",
                ),
            ),
            unit="reqps",
            least=0,
        ),
    ),
)

_CHOICE = Row(
    "Where requests went",
    (
        Panel(
            "Choices of a replica",
            shows="Why the replica was chosen that a request went to, each second: `prefix` and"
            " `session` found what they had there before.",
            empty=_NONE,
            queries=(
                Query(
                    f"sum by (model, reason) (rate(llmgw_prefix_decisions_total{{{_M}}}{_SPAN}))",
                    "{{model}} {{reason}}",
                ),
            ),
            unit="reqps",
            least=0,
        ),
        Panel(
            "Fall-backs",
            shows="Requests that another model or a provider served, because nothing else could,"
            " each second.",
            empty=f"{_NONE}, and while no fall-back was needed",
            queries=(
                Query(
                    f"sum by (model, to, reason) (rate(llmgw_fallbacks_total{{{_M}}}{_SPAN}))",
                    "{{model}} to {{to}}: {{reason}}",
                ),
            ),
            unit="reqps",
            least=0,
        ),
    ),
)

_ENDPOINTS = Row(
    "Replicas as gateways and engines see them",
    (
        Panel(
            "Gateways that can't use it",
            shows="Gateways whose requests to a replica failed, and of which none was answered"
            " there since.",
            empty="while no gateway is there",
            queries=(
                Query(
                    f"sum by (model, endpoint) (1 - llmgw_endpoint_up{{{_M}}})",
                    "{{model}} {{endpoint}}",
                ),
            ),
            least=0,
        ),
        Panel(
            "In flight at each",
            shows="Requests that gateways have at a replica now.",
            empty="while no gateway is there",
            queries=(
                Query(
                    f"sum by (model, endpoint) (llmgw_endpoint_requests_in_flight{{{_M}}})",
                    "{{model}} {{endpoint}}",
                ),
            ),
            least=0,
        ),
        Panel(
            "Score of each",
            shows="What a replica has to do as gateways see it, in requests; the highest of them."
            " Of two the lower one is chosen.",
            empty="while no request is in flight",
            queries=(
                Query(
                    f"max by (model, endpoint) (llmgw_endpoint_score{{{_M}}})",
                    "{{model}} {{endpoint}}",
                ),
            ),
            least=0,
        ),
        Panel(
            "In the engines",
            shows="Requests that engines say they serve, and that wait in them.",
            empty="for engines that do not say",
            queries=(
                Query(
                    f"sum by (model, replica) (llmgw_shard_requests_running{{{_M}}})",
                    "{{model}} {{replica}} served",
                ),
                Query(
                    f"sum by (model, replica) (llmgw_shard_requests_waiting{{{_M}}})",
                    "{{model}} {{replica}} waiting",
                ),
            ),
            least=0,
        ),
        Panel(
            "KV cache",
            shows="Share of an engine's KV cache that requests hold.",
            empty="for engines that do not say",
            queries=(
                Query(
                    f"max by (model, replica) (llmgw_shard_cache_used_ratio{{{_M}}})",
                    "{{model}} {{replica}}",
                ),
            ),
            unit="percentunit",
            least=0,
            most=1,
        ),
        Panel(
            "Workers of gateways",
            shows="Processes with which each gateway answers.",
            empty="while no gateway is there",
            queries=(Query("llmgw_gateway_workers", "{{gateway}}"),),
            least=0,
        ),
    ),
)

DASHBOARD = Dashboard(
    name="traffic",
    title="llmgw: traffic",
    description="Users' requests: how many, how fast, and what failed.",
    variables=(MODEL,),
    rows=(_REQUESTS, _LATENCY, _QUEUE, _TOKENS, _CHOICE, _ENDPOINTS),
)
