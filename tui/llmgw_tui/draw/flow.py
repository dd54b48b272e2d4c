"""The page of traffic: how requests go now, by model and by gateway, and in the last hour."""

from collections.abc import Iterable, Sequence

from llmgw.base.units import show_seconds
from llmgw.model.flow import SECONDS, Figures, Flow, FlowHistory, NamedFigures, Percentiles
from llmgw.model.history import Series
from llmgw_tui.draw import measures, table
from llmgw_tui.draw.chart import Trend, chart, round_up
from llmgw_tui.draw.page import BLANK, GUTTER, PageLine, Section, fact, stack
from llmgw_tui.draw.table import Cell, Column, Row
from llmgw_tui.draw.text import Piece, clean, cut, fit, said
from llmgw_tui.draw.trends import ALONE_HEIGHT, HEIGHT, columns_of

NO_MODEL = "(no model)"
TITLES = {
    "requests": "requests/s",
    "errors": "errors/s",
    "prompt_tokens": "tokens in/s",
    "completion_tokens": "tokens out/s",
    "in_flight": "in flight",
    "queued": "waiting",
    "first_token": "first token p95",
    "inter_token": "inter-token p95",
}
SERIES = tuple(TITLES)
"""What a chart can show, in the order in which they follow each other."""
CHARTS = "Last hour"

COLUMNS = (
    Column("name", "MODEL", 1, least=10, most=36),
    Column("requests", "REQ/S", 1, "right", least=5),
    Column("errors", "ERR/S", 2, "right", least=5),
    Column("prompt", "IN/S", 4, "right", least=4),
    Column("completion", "OUT/S", 2, "right", least=5),
    Column("flight", "FLIGHT", 3, "right", least=3),
    Column("queued", "WAIT", 2, "right", least=4),
    Column("ttft50", "TTFT50", 5, "right", least=6),
    Column("ttft95", "TTFT95", 1, "right", least=6),
    Column("ttft99", "TTFT99", 6, "right", least=6),
    Column("itl50", "TOKEN50", 5, "right", least=6),
    Column("itl95", "TOKEN95", 1, "right", least=7),
    Column("itl99", "TOKEN99", 6, "right", least=6),
    Column("codes", "ERRORS", 7, least=8, most=60, grow=1),
)


def page(
    seen: Flow, past: FlowHistory | None, width: int, height: int, series: str = ""
) -> list[PageLine]:
    """Return the page.

    Args:
        seen: how requests go now.
        past: the last hour; None: it was not told yet.
        width: cells.
        height: lines that show at once.
        series: which chart is looked at; empty: all, where there is room for several in a row.
    """
    lines = _whole(seen, width)
    # A page that has few lines has no use for blank ones.
    gap = 1 if height >= 16 else 0
    sections = [
        _table(
            "By model", COLUMNS, [_row(one.name or NO_MODEL, one) for one in seen.models], width
        ),
        _gateways(seen, width),
        _charts(past, width, series),
    ]
    return [*lines, *([BLANK] * gap), *stack(sections, width, gap)]


def percentile(times: Percentiles | None, name: str) -> str:
    """Return one percentile: `480ms`; `≥5m00s` where nobody knows how much more it was."""
    value: float | None = None if times is None else getattr(times, name)
    if times is None or value is None:
        return measures.ABSENT
    return f"{'≥' if value == times.bound else ''}{show_seconds(value)}"


def rate(value: float | None) -> str:
    """Return a rate, with two digits where it is small."""
    return measures.number(value, digits=2 if value is not None and value < 10 else 0)


def _whole(seen: Flow, width: int) -> list[PageLine]:
    """Return all together, a line a subject."""
    whole, oldest = seen.whole, seen.oldest_waiting
    errs = whole.errors_per_second
    since = "" if oldest is None else f" for {show_seconds(oldest)}"
    lines = [
        fact(
            "requests",
            (f"{rate(whole.requests_per_second)}/s", "strong"),
            (f"  {whole.requests} in {show_seconds(seen.window)}", "dim"),
            f"   in flight {whole.in_flight}",
            (f", {whole.queued} waiting{since}", "warn" if whole.queued else "dim"),
        ),
        fact(
            "tokens",
            f"in {rate(whole.prompt_tokens_per_second)}/s",
            f"   out {rate(whole.completion_tokens_per_second)}/s",
            (f"   sent again {whole.retries}", "dim"),
            (f"   clients left {whole.client_aborts}", "dim"),
            (f"   broken {whole.engine_aborts}", "warn" if whole.engine_aborts else "dim"),
        ),
        _times("first token", whole.first_token),
        _times("inter-token", whole.inter_token),
    ]
    if whole.waited is not None:
        lines.append(_times("waited", whole.waited))
    words = f"{rate(errs)}/s" + (f"  {codes}" if (codes := _codes(whole)) else "")
    lines.append(fact("errors", (cut(words, width - 13), "warn" if errs else "dim")))
    return lines


def _times(name: str, times: Percentiles | None) -> PageLine:
    if times is None:
        return fact(name, ("nothing measured in this time", "absent"))
    parts: list[tuple[str, str]] = []
    for one in ("p50", "p95", "p99"):
        parts += [(f"{one} ", "dim"), (f"{percentile(times, one)}   ", "text")]
    return fact(name, *parts, (f"of {times.count}", "dim"))


def _codes(figures: Figures) -> str:
    """Return errors by code: the gateway's own, then statuses, which engines' are among."""
    own = ", ".join(f"{one.count} {clean(one.code)}" for one in figures.codes)
    answered = ", ".join(f"{one.count}×{one.code}" for one in figures.statuses)
    return "; ".join(words for words in (own, answered) if words)


def _row(name: str, one: Figures) -> Row:
    errs = one.errors_per_second
    cells: dict[str, Cell] = {
        "name": said((clean(name), "strong")),
        "requests": said(rate(one.requests_per_second)),
        "errors": said((rate(errs), "warn" if errs else "dim")),
        "prompt": said((rate(one.prompt_tokens_per_second), "dim")),
        "completion": said(rate(one.completion_tokens_per_second)),
        "flight": said(str(one.in_flight)),
        "queued": said((str(one.queued), "warn" if one.queued else "dim")),
        "codes": said((_codes(one), "dim")),
    }
    for key, times in (("ttft", one.first_token), ("itl", one.inter_token)):
        for share in ("50", "95", "99"):
            text = percentile(times, f"p{share}")
            role = "absent" if text == measures.ABSENT else "text"
            cells[f"{key}{share}"] = said((text, role))
    return Row(name, cells)


def _table(
    title: str, columns: Sequence[Column], rows: Sequence[Row], width: int
) -> Section | None:
    """Return a table as a section of a page; None without rows."""
    if not rows:
        return None
    layout = table.lay_out(columns, table.natural_widths(columns, rows), width)
    lines = [table.header(layout, width), *(table.compose(row, layout, width) for row in rows)]
    return Section(title, tuple(PageLine(line.pieces) for line in lines))


def _gateways(seen: Flow, width: int) -> Section | None:
    there = [one for one in seen.gateways if one.figures is not None]
    away = [one.name for one in seen.gateways if not one.connected]
    rows = [_row(one.name, one.figures) for one in there if one.figures is not None]
    columns = (Column("name", "GATEWAY", 1, least=10, most=36), *COLUMNS[1:])
    section = _table("By gateway", columns, rows, width)
    told = tuple(
        PageLine(said(("▲ ", "warn"), clean(name), (" is away: what it does is not known", "dim")))
        for name in away
    )
    if section is None:
        none = PageLine(said(("no gateway is connected", "dim")))
        return Section("By gateway", told or (none,))
    return section._replace(lines=(*section.lines, *told))


def _charts(past: FlowHistory | None, width: int, series: str) -> Section | None:
    if past is None:
        return None
    known = {one.name: one for one in past.series}
    named = f" of {clean(past.model)}" if past.model is not None else ""
    title = f"{CHARTS}{named}"
    columns = columns_of(width)
    wanted = [series] if series in TITLES else list(SERIES)
    if columns == 1:
        wanted = wanted[:1]
    trends = [_trend(past, known[name]) for name in wanted if name in known]
    if len(trends) <= 1:
        drawn = [chart(trend, width, ALONE_HEIGHT) for trend in trends]
        return Section(title, tuple(PageLine(line) for one in drawn for line in one))
    return Section(title, tuple(_beside(trends, width, columns)))


def _trend(past: FlowHistory, series: Series) -> Trend:
    highest = max((value for value in series.values if value is not None), default=0.0)
    last = int(past.until // past.step)
    title = TITLES.get(series.name, series.name)
    # Times of some milliseconds would lie at the foot of a chart that ends at a second.
    top = round_up(highest) if series.unit == SECONDS else None
    return Trend(title, series.values, last, past.step, series.unit, top)


def _beside(trends: Sequence[Trend], width: int, columns: int) -> Iterable[PageLine]:
    each = (width - GUTTER * (columns - 1)) // columns
    for first in range(0, len(trends), columns):
        row = [chart(trend, each, HEIGHT) for trend in trends[first : first + columns]]
        for index in range(HEIGHT):
            pieces: list[Piece] = []
            for drawn in row:
                line = drawn[index] if index < len(drawn) else ()
                pieces += [*fit(line, each), Piece(" " * GUTTER)]
            yield PageLine(tuple(pieces[:-1]))


def other_series(now: str, step: int, width: int) -> str:
    """Return what is looked at next: one after the other, and all where several fit in a row."""
    known = SERIES if columns_of(width) == 1 else ("", *SERIES)
    at = known.index(now) if now in known else 0
    return known[(at + step) % len(known)]


def named(seen: Flow) -> tuple[NamedFigures, ...]:
    """Return the models that have a name."""
    return tuple(one for one in seen.models if one.name)
