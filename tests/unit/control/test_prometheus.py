"""Longer histories: what is asked of a Prometheus, and whatever it answers."""

import gzip
import json
import re
import threading
import tracemalloc
from collections.abc import AsyncIterator, Callable
from urllib.parse import parse_qs

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.errors import LlmgwError, Refused, TimedOut, Unreachable, Unreadable
from llmgw.control import ranges
from llmgw.control.history import LENGTH
from llmgw.control.metrics.families import FAMILIES
from llmgw.control.prometheus import Prometheus
from llmgw.model.history import (
    DEVICE_MEASURES,
    MEMORY,
    NAMES,
    NODE_MEASURES,
    PROMETHEUS,
    NodeHistory,
    Series,
)
from llmgw.model.work import POWER, SM_ACTIVE, WorkSource
from tests.fakes.fleet_parts import NOW

URL = "http://prometheus:9090"
SPAN = ranges.Span(start=1000.0, end=1040.0, step=10.0)


def matrix(*lines: tuple[str | None, list[tuple[float, str]]]) -> bytes:
    result = [
        {"metric": {} if uuid is None else {"uuid": uuid}, "values": values}
        for uuid, values in lines
    ]
    data = {"resultType": "matrix", "result": result}
    return json.dumps({"status": "success", "data": data}).encode()


@pytest.mark.parametrize(
    ("minutes", "step"), [(61, 11), (360, 60), (24 * 60, 240), (7 * 24 * 60, 1680)]
)
def test_a_span_has_as_many_points_as_an_hour_in_memory_and_reaches_back_far_enough(
    minutes: int, step: float
) -> None:
    asked = ranges.span(minutes, NOW)
    assert (asked.step, asked.points) == (step, LENGTH)
    assert asked.end <= NOW < asked.end + step
    assert asked.end % step == 0
    assert asked.points * step >= minutes * 60


def test_every_measure_is_asked_for_under_the_node_s_name() -> None:
    asked = ranges.queries("c", "gpu-01", ())
    assert {one.name for one in asked} == set(NAMES)
    assert len(asked) == len(NODE_MEASURES) + len(DEVICE_MEASURES) + 1
    assert all('{node="gpu-01"' in one.expression for one in asked)
    assert [one.name for one in ranges.queries("c", "gpu-01", ("power", "cpu"))] == ["cpu", "power"]


def test_a_name_with_quotes_stays_inside_its_quotes() -> None:
    (asked,) = ranges.queries('c"', 'x"} or up{a="\\', ("cpu",))
    assert asked.expression == (
        'max(llmgw_node_cpu_utilization_percent{node="x\\"} or up{a=\\"\\\\"}'
        ' and on (job, instance) llmgw_build_info{cluster="c\\""})'
    )


def test_points_that_an_answer_leaves_out_or_that_are_no_numbers_are_gaps() -> None:
    body = matrix((None, [(1000, "5"), (1020, "NaN"), (1030, "+Inf"), (1040, "0"), (1200, "9")]))
    assert ranges.read(body, SPAN) == {None: (5.0, None, None, None, 0.0)}


def test_work_goes_by_active_multiprocessors_where_they_were_read_and_says_so() -> None:
    by_work = {one.work: one for one in ranges.queries("c", "n", ("work",))}
    active: ranges.Found = {"g": (None, None, 90.0, 91.0, None)}
    power: ranges.Found = {"g": (50.0, 51.0, 52.0, 53.0, None), "h": (1.0, 1.0, 1.0, 1.0, 1.0)}
    told = ranges.series([(by_work[SM_ACTIVE], active), (by_work[POWER], power)], SPAN)
    assert [(one.device, one.values, one.made_of) for one in told] == [
        ("g", (50.0, 51.0, 90.0, 91.0, None), (SM_ACTIVE, POWER)),
        ("h", (1.0, 1.0, 1.0, 1.0, 1.0), (POWER,)),
    ]


def test_a_node_of_which_prometheus_knows_nothing_has_gaps() -> None:
    told = ranges.series([(one, {}) for one in ranges.queries("c", "n", ())], SPAN)
    assert [(one.name, one.values) for one in told] == [
        (one.name, (None,) * 5) for one in NODE_MEASURES
    ]


def test_an_error_of_prometheus_is_told_in_its_words() -> None:
    body = b'{"status": "error", "errorType": "bad_data", "error": "exceeded maximum resolution"}'
    with pytest.raises(Refused, match="Prometheus says: exceeded maximum resolution"):
        ranges.read(body, SPAN)


@given(
    st.binary(max_size=60)
    | st.text(max_size=30).map(lambda text: matrix((text, [(1000, text)])))
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["status", "data", "result", "metric"]), inner)
        ),
        max_leaves=6,
    ).map(lambda value: json.dumps(value).encode())
)
def test_whatever_answers_is_read_or_refused(body: bytes) -> None:
    try:
        found = ranges.read(body, SPAN)
    except LlmgwError:
        return
    assert all(len(values) == SPAN.points for values in found.values())


def prometheus(answer: Callable[[httpx.Request], httpx.Response]) -> Prometheus:
    return Prometheus(httpx.MockTransport(answer))


async def test_a_history_is_put_together_from_one_answer_a_measure() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url == f"{URL}/api/v1/query_range"
        form = {name: texts[0] for name, texts in parse_qs(request.content.decode()).items()}
        asked.append(form["query"])
        uuid = None if "llmgw_node_" in form["query"] else "GPU-1"
        return httpx.Response(200, content=matrix((uuid, [(float(form["end"]), "42")])))

    told = await prometheus(answer).history(f"{URL}/", "n", (), cluster="c", minutes=360, now=NOW)
    assert len(asked) == len(ranges.queries("c", "n", ()))
    assert (told.source, told.step, told.problem) == (PROMETHEUS, 60.0, None)
    assert [(one.name, one.device) for one in told.series] == [
        *((one.name, None) for one in NODE_MEASURES),
        *((one.name, "GPU-1") for one in DEVICE_MEASURES),
    ]
    assert all(one.values == (*(None,) * (LENGTH - 1), 42.0) for one in told.series)


async def test_a_redirect_is_not_followed() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.host == "prometheus"
        return httpx.Response(302, headers={"Location": "http://elsewhere/"})

    with pytest.raises(Unreadable):
        await prometheus(answer).history(URL, "n", ("cpu",), cluster="c", minutes=360, now=NOW)


@pytest.mark.parametrize(
    ("failure", "error", "words"),
    [
        (httpx.ConnectError("Connection refused"), Unreachable, "Connection refused"),
        (httpx.ReadTimeout(""), TimedOut, "did not answer within 10 s"),
        (httpx.RemoteProtocolError("peer closed"), Unreachable, "peer closed"),
    ],
)
async def test_a_prometheus_that_is_away_is_told_in_words(
    failure: Exception, error: type[LlmgwError], words: str
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise failure

    with pytest.raises(error, match=words):
        await prometheus(answer).history(URL, "n", ("cpu",), cluster="c", minutes=360, now=NOW)


async def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llmgw.control.prometheus.MOST_BYTES", 1 << 20)

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b" " * 65536

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=endless())

    with pytest.raises(Unreadable, match="more than 1 MiB"):
        await prometheus(answer).history(URL, "n", ("cpu",), cluster="c", minutes=360, now=NOW)


def packed(size: int) -> bytes:
    return gzip.compress(b'{"status": "success", "data": {"result": []}}' + b" " * size)


@pytest.mark.parametrize(("encoding", "body"), [("gzip", packed(64 << 20)), ("br", b"x")])
async def test_an_answer_is_measured_unpacked(encoding: str, body: bytes) -> None:
    async def sent() -> AsyncIterator[bytes]:
        yield body

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["Accept-Encoding"] == "identity"
        return httpx.Response(200, content=sent(), headers={"Content-Encoding": encoding})

    tracemalloc.start()
    try:
        with pytest.raises(Unreadable, match=r"more than 8 MiB|packed as 'br'"):
            await prometheus(answer).history(URL, "n", ("cpu",), cluster="c", minutes=360, now=NOW)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


async def test_an_answer_that_a_proxy_packed_is_read() -> None:
    async def sent() -> AsyncIterator[bytes]:
        yield packed(10)

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=sent(), headers={"Content-Encoding": "gzip"})

    told = await prometheus(answer).history(URL, "n", ("cpu",), cluster="c", minutes=360, now=NOW)
    assert [one.name for one in told.series] == ["cpu"]


async def test_the_loop_goes_on_while_a_long_answer_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read_in: list[int] = []
    read = ranges.read

    def noted(body: bytes, asked: ranges.Span) -> ranges.Found:
        read_in.append(threading.get_ident())
        return read(body, asked)

    monkeypatch.setattr(ranges, "read", noted)
    body = matrix((None, [(NOW, "1")]))
    await prometheus(lambda _: httpx.Response(200, content=body)).history(
        URL, "n", ("cpu",), cluster="c", minutes=360, now=NOW
    )
    assert read_in
    assert threading.get_ident() not in read_in


def test_more_series_than_a_node_has_and_a_series_without_end_are_refused() -> None:
    lines = [(str(number), [(1000.0, "1")]) for number in range(ranges.MOST_LINES + 1)]
    many = matrix(*lines)
    long = matrix(("GPU-1", [(1000, "1")] * 20_000))
    for body in (many, long):
        with pytest.raises(Unreadable, match="series in"):
            ranges.read(body, SPAN)


def test_another_cluster_s_nodes_of_the_same_name_are_left_out() -> None:
    for one in ranges.queries("north", "gpu-01", ()):
        ours = 'and on (job, instance) llmgw_build_info{cluster="north"}'
        assert ours in one.expression, one.name


@pytest.mark.parametrize("url", ["ftp://prometheus", "prometheus:9090", "http://"])
async def test_an_address_that_is_none_is_told_without_quoting_it(url: str) -> None:
    with pytest.raises(LlmgwError) as told:
        await Prometheus().history(url, "n", ("cpu",), cluster="c", minutes=360, now=NOW)
    assert "http" in told.value.message or "Prometheus" in told.value.message


def test_every_metric_that_is_asked_for_is_exported() -> None:
    exported = {family.name for family in FAMILIES}
    for query in ranges.queries("c", "n", ()):
        names = set(re.findall(r"llmgw_\w+", query.expression))
        assert names
        assert names <= exported, query.name


def history(source: str, step: float, until: float, *series: Series) -> NodeHistory:
    return NodeHistory(step=step, until=until, series=series, source=source)


def cpu(*values: float | None) -> Series:
    return Series(name="cpu", unit="percent", values=values)


def test_memory_is_laid_over_the_answer_where_it_has_values() -> None:
    told = history(PROMETHEUS, 30.0, 120.0, cpu(1.0, 2.0, None, 4.0, 5.0))
    # At 55, 65, 75, 85, 95, 105, 115, 125: points are at 60, 90 and 120.
    kept = history(MEMORY, 10.0, 125.0, cpu(55.0, 65.0, 75.0, None, None, None, None, 125.0))
    laid = ranges.with_memory(told, kept)
    assert laid == history(PROMETHEUS, 30.0, 120.0, cpu(1.0, 2.0, 55.0, 75.0, 5.0))


def test_a_value_of_the_very_time_of_a_point_is_that_point_s() -> None:
    told = history(PROMETHEUS, 30.0, 120.0, cpu(None, None, None))
    laid = ranges.with_memory(told, history(MEMORY, 10.0, 90.0, cpu(7.0, 8.0, 9.0)))
    assert laid.series == (cpu(None, 9.0, None),)


def test_a_device_that_prometheus_does_not_know_yet_is_told_from_memory() -> None:
    told = history(PROMETHEUS, 30.0, 90.0, cpu(1.0, 1.0, 1.0))
    busy = Series(name="busy", device="GPU-1", unit="percent", values=(None, 40.0))
    work = Series(
        name="work", device="GPU-1", unit="percent", values=(None, 30.0), made_of=(POWER,)
    )
    gaps = Series(name="busy", device="GPU-2", unit="percent", values=(None, None))
    laid = ranges.with_memory(told, history(MEMORY, 10.0, 90.0, cpu(None, None), busy, work, gaps))
    assert laid.series == (
        cpu(1.0, 1.0, 1.0),
        msgspec.structs.replace(busy, values=(None, None, 40.0)),
        msgspec.structs.replace(work, values=(None, None, 30.0)),
    )


def test_work_says_of_what_it_was_made_in_both() -> None:
    def work(made_of: WorkSource, *values: float | None) -> Series:
        return Series(name="work", device="G", unit="percent", values=values, made_of=(made_of,))

    told = history(PROMETHEUS, 30.0, 90.0, work(POWER, 1.0, 2.0, 3.0))
    kept = history(MEMORY, 10.0, 90.0, work(SM_ACTIVE, 90.0))
    (laid,) = ranges.with_memory(told, kept).series
    assert (laid.values, laid.made_of) == ((1.0, 2.0, 90.0), (SM_ACTIVE, POWER))


def test_a_memory_that_kept_nothing_changes_nothing() -> None:
    told = history(PROMETHEUS, 30.0, 90.0, cpu(1.0, None, 3.0))
    assert ranges.with_memory(told, history(MEMORY, 10.0, 0.0, cpu(None, None))) == told
