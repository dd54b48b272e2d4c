"""Users' requests, by model."""

from llmgw.observability.dashboards.choices import MODEL
from llmgw.observability.panel import Dashboard, Panel, Query, Row

_M = 'model=~"$model"'
_SPAN = "[$__rate_interval]"
_NONE = "until a gateway reported a request for the model"
_STREAMED = f"{_NONE}, and for models whose replies were never streamed"


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
            width=12,
            least=0,
        ),
        Panel(
            "Duration",
            shows="Half, 95 % and 99 % of requests were answered whole by then.",
            empty=_NONE,
            queries=_quantiles("llmgw_request_duration_seconds"),
            unit="s",
            width=12,
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

DASHBOARD = Dashboard(
    name="traffic",
    title="llmgw: traffic",
    description="Users' requests: how many, how fast, and what failed.",
    variables=(MODEL,),
    rows=(_REQUESTS, _LATENCY, _TOKENS),
)
