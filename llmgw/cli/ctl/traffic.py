"""`llmgw ctl traffic`: how requests go."""

from collections.abc import Callable
from typing import Annotated

import typer

from llmgw.base.units import show_seconds
from llmgw.cli import session, show
from llmgw.cli.options import Format, Output, Watch
from llmgw.cli.output import ABSENT, Column, fields, print_data, printable, say, table
from llmgw.client.interface import Decoded
from llmgw.model.flow import Figures, Flow, NamedFigures, Percentiles


def percentile(name: str) -> Callable[[Percentiles | None], str]:
    """Return what shows one percentile: `480ms`; `≥5m00s` where nobody knows how much more."""

    def shown(times: Percentiles | None) -> str:
        value: float | None = None if times is None else getattr(times, name)
        if times is None or value is None:
            return ABSENT
        return f"{'≥' if value == times.bound else ''}{show_seconds(value)}"

    return shown


_P50, _P95, _P99 = percentile("p50"), percentile("p95"), percentile("p99")


def rate(value: float | None) -> str:
    """Return a rate: two digits where it is small."""
    return show.number(value, digits=2 if value is not None and value < 10 else 0)


COLUMNS: tuple[Column[NamedFigures], ...] = (
    Column("NAME", lambda f: f.name or "(no model)"),
    Column("REQ/S", lambda f: rate(f.requests_per_second), right=True),
    Column("ERR/S", lambda f: rate(f.errors_per_second), right=True),
    Column("IN/S", lambda f: rate(f.prompt_tokens_per_second), right=True),
    Column("OUT/S", lambda f: rate(f.completion_tokens_per_second), right=True),
    Column("FLIGHT", lambda f: str(f.in_flight), right=True),
    Column("QUEUED", lambda f: str(f.queued), right=True),
    Column("TTFT P50", lambda f: _P50(f.first_token), right=True),
    Column("P95", lambda f: _P95(f.first_token), right=True),
    Column("P99", lambda f: _P99(f.first_token), right=True),
    Column("TOKEN P50", lambda f: _P50(f.inter_token), right=True),
    Column("P95", lambda f: _P95(f.inter_token), right=True),
    Column("P99", lambda f: _P99(f.inter_token), right=True),
)


def traffic(
    window: Annotated[
        float, typer.Option("--window", min=10, max=300, help="Over so many of the last seconds.")
    ] = 60.0,
    output: Output = Format.TABLE,
    watch: Watch = False,
) -> None:
    """Say how requests go: rates, times to the first token and between tokens, queues, errors."""
    query = {"window": window}
    if watch:
        from llmgw.cli.watching import poll

        poll(lambda: session.connect().get("/traffic", query), lines, output)
        return
    answer = session.connect().get("/traffic", query)
    if output in (Format.JSON, Format.YAML):
        print_data(answer, output)
    elif output is Format.NAME:
        for one in session.typed(answer, Flow, "traffic").models:
            if one.name:
                say(one.name)
    else:
        for line in lines(answer):
            print(line)


def lines(answer: Decoded) -> list[str]:
    """Return what a person reads."""
    flow = session.typed(answer, Flow, "traffic")
    whole = flow.whole
    told = fields(
        (
            ("over", f"the last {show_seconds(flow.window)}"),
            ("requests", f"{rate(whole.requests_per_second)}/s, {whole.requests} ended"),
            ("errors", _errors(whole)),
            ("tokens", _tokens(whole)),
            ("in flight", _in_flight(flow)),
            ("first token", _times(whole.first_token)),
            ("inter-token", _times(whole.inter_token)),
            ("waited", _times(whole.waited) if whole.waited is not None else ""),
        )
    )
    if flow.models:
        told += ["", *table(flow.models, COLUMNS, wide=False)]
    named = [
        NamedFigures(
            name=one.name, **{f: getattr(one.figures, f) for f in Figures.__struct_fields__}
        )
        for one in flow.gateways
        if one.figures is not None
    ]
    if named:
        told += ["", *table(named, COLUMNS, wide=False)]
    away = [one.name for one in flow.gateways if not one.connected]
    return told + [
        printable(f"! gateway {name} is away: what it does is not known") for name in away
    ]


def _in_flight(flow: Flow) -> str:
    oldest = flow.oldest_waiting
    since = "" if oldest is None else f", the oldest for {show_seconds(oldest)}"
    return f"{flow.whole.in_flight}, {flow.whole.queued} of them waiting{since}"


def _errors(whole: Figures) -> str:
    codes = [f"{one.count} {one.code}" for one in whole.codes]
    codes += [f"{one.count} answered {one.code}" for one in whole.statuses]
    return f"{rate(whole.errors_per_second)}/s" + (f": {', '.join(codes)}" if codes else "")


def _tokens(whole: Figures) -> str:
    read, made = whole.prompt_tokens_per_second, whole.completion_tokens_per_second
    return f"{rate(read)}/s in, {rate(made)}/s out"


def _times(times: Percentiles | None) -> str:
    return f"p50 {_P50(times)}, p95 {_P95(times)}, p99 {_P99(times)}" if times else ABSENT
