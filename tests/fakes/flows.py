"""Traffic as gateways count it, requests in flight, and keys: at the moment of recorded fleets."""

from math import sin

import msgspec

from llmgw.control.flow import flow
from llmgw.control.rates import LENGTH, STEP
from llmgw.gateway.meter import Meter
from llmgw.model.flow import COUNT, FLOW_MEASURES, SECONDS, Flow, FlowHistory
from llmgw.model.gateway import Gateway, ModelTraffic, ReplyCount, TrafficReport
from llmgw.model.history import Series
from llmgw.model.keys import Key, QuotaFigures, UsageSum
from llmgw.model.live import (
    CONNECTING,
    PREFILL,
    QUEUED,
    STREAMING,
    LiveRequest,
    RequestShown,
    RequestsShown,
    Silent,
)
from llmgw.model.standing import KeyStanding, Spent
from tests.fakes.fleet_parts import NOW

MODEL = "gemma3-270m"
TTFTS = (0.04, 0.06, 0.07, 0.09, 0.12, 0.2, 0.3, 0.7)
GAPS = (0.011, 0.012, 0.013, 0.018, 0.024, 0.04)


def counted(times: int, model: str = MODEL, in_flight: int = 3) -> ModelTraffic:
    """Return what a worker counted of a model that was asked so many times the same."""
    meter = Meter(model)
    for _ in range(times):
        for seconds in TTFTS:
            meter.first_token.add(seconds)
            meter.duration.add(seconds * 12)
            meter.replied(200)
        for seconds in GAPS:
            meter.inter_token.add(seconds)
        meter.duration.add(0.002)
        meter.replied(429)
        meter.refusals["over_tokens_per_minute"] = (
            meter.refusals.get("over_tokens_per_minute", 0) + 1
        )
        meter.prompt += 4000
        meter.completion += 900
        meter.waited.add(0.4)
    meter.in_flight = in_flight
    return meter.record()


def unknown(times: int) -> ModelTraffic:
    """Return what was answered before a model was known."""
    meter = Meter("")
    for _ in range(times):
        meter.replied(401)
        meter.errors["invalid_api_key"] = meter.errors.get("invalid_api_key", 0) + 1
    return meter.record()


MODELS = (counted(6), unknown(2))

REQUESTS = (
    LiveRequest(
        id="req-a-1",
        key="k7f2m9x1aa",
        key_name="lab",
        model=MODEL,
        replica=f"{MODEL}-7k2m9x",
        node="atlas",
        path="/v1/chat/completions",
        streams=True,
        state=STREAMING,
        age=12.4,
        tokens=183,
        client="10.0.0.17:51544",
    ),
    LiveRequest(
        id="req-a-2",
        key="k7f2m9x1aa",
        key_name="lab",
        model=MODEL,
        asked="default",
        replica=f"{MODEL}-7k2m9x",
        node="atlas",
        path="/v1/chat/completions",
        streams=False,
        state=PREFILL,
        age=3.1,
        client="10.0.0.17:51546",
    ),
    LiveRequest(
        id="req-b-1",
        key="batch00001",
        key_name="nightly batch",
        model=MODEL,
        path="/v1/completions",
        streams=True,
        state=QUEUED,
        place=1,
        age=0.8,
        client="10.0.3.4:40112",
    ),
    LiveRequest(
        id="req-b-2",
        key="batch00001",
        key_name="nightly batch",
        model=MODEL,
        replica=f"{MODEL}-7k2m9x",
        node="atlas",
        path="/v1/embeddings",
        streams=False,
        state=CONNECTING,
        age=0.01,
        client="10.0.3.4:40114",
    ),
)

OTHER = "qwen3-coder-480b-a35b"


def answers(*, busy: bool, well: bool = False) -> dict[str, object]:
    """Return what a control plane answers of traffic and keys, by path.

    Args:
        busy: there is any.
        well: nothing is wrong: no gateway is away, no key over its limits, nothing failed.
    """
    if well:
        return {
            "/traffic": flowing_well(),
            "/traffic-history": hour(busy=True),
            "/requests": msgspec.structs.replace(
                in_flight(), total=1, matching=1, requests=in_flight().requests[1:2], silent=()
            ),
            "/keys": KEYS[:1],
            "/key-use": STANDINGS[:1],
            "/usage/sums": USED,
        }
    return {
        "/traffic": flowing() if busy else resting(),
        "/traffic-history": hour(busy=busy),
        "/requests": in_flight() if busy else RequestsShown(
            at=NOW, total=0, matching=0, requests=(), silent=()
        ),
        "/keys": KEYS if busy else (),
        "/key-use": STANDINGS if busy else (),
        "/usage/sums": USED if busy else (),
    }  # fmt: skip


def flowing() -> Flow:
    """Return traffic of two models through two gateways, one of which is away."""
    deltas = {
        ("gw-1", MODEL): counted(20, in_flight=0),
        ("gw-1", OTHER): counted(3, OTHER, in_flight=0),
        ("gw-1", ""): unknown(2),
    }
    report = TrafficReport(
        gateway="gw-1", boot="b", worker=0, models=(counted(1), counted(1, OTHER, 1))
    )
    gateways = (Gateway(id="gw-1", connected=True), Gateway(id="gw-2", connected=False))
    queues = {"gw-1": {MODEL: 1}}
    return flow(deltas, 62.0, (report,), queues, gateways, at=NOW, oldest_waiting=0.8)


def flowing_well() -> Flow:
    """Return traffic of one model through one gateway, without an error."""
    fine = msgspec.structs.replace(
        counted(20), replies=(ReplyCount(code=200, count=160),), refusals=(), waited=None
    )
    report = TrafficReport(gateway="gw-1", boot="b", worker=0, models=(counted(1, in_flight=1),))
    gateways = (Gateway(id="gw-1", connected=True),)
    return flow({("gw-1", MODEL): fine}, 62.0, (report,), {}, gateways, at=NOW)


def resting() -> Flow:
    """Return how it is before anything was asked."""
    return flow({}, 62.0, (), {}, (Gateway(id="gw-1", connected=True),), at=NOW)


def hour(*, busy: bool) -> FlowHistory:
    """Return an hour of which the first ten minutes are not known."""
    scales = {SECONDS: 0.1, COUNT: 5.0}
    series = []
    for number, measure in enumerate(FLOW_MEASURES):
        scale = scales.get(measure.unit, 10.0 * (number + 1))
        values = [
            None if at < 60 else round(scale * (1.2 + sin(at / 25 + number)), 4) if busy else 0.0
            for at in range(LENGTH)
        ]
        if not busy and measure.unit == SECONDS:
            values = [None] * LENGTH
        series.append(Series(name=measure.name, unit=measure.unit, values=tuple(values)))
    return FlowHistory(step=STEP, until=NOW, series=tuple(series))


def in_flight() -> RequestsShown:
    """Return four requests in flight, one of them for long."""
    late = msgspec.structs.replace(REQUESTS[1], age=95.0)
    found = tuple(
        RequestShown(gateway="gw-1", **msgspec.structs.asdict(one))
        for one in (late, REQUESTS[0], *REQUESTS[2:])
    )
    silent = (Silent(gateway="gw-2", words="it is not connected"),)
    return RequestsShown(at=NOW, total=4, matching=4, requests=found, silent=silent)


def _key(key_id: str, name: str, **more: object) -> Key:
    fields = {"sha256": "ab" * 32, "created": NOW - 30 * 86400.0, **more}
    return Key(id=key_id, name=name, **fields)  # type: ignore[arg-type]


KEYS = (
    _key("k7f2m9x1aa", "lab", requests_per_minute=60, tokens_per_day=2_000_000, concurrent=8),
    _key(
        "batch00001", "nightly batch", models=(MODEL, OTHER), tokens_per_minute=40_000, priority=-2
    ),
    _key("gone000001", "old notebook", expires=NOW - 3600),
    _key("new0000001", "ünused"),
)

USED = tuple(
    UsageSum(
        start=start,
        key="k7f2m9x1aa",
        model=None,
        requests=requests,
        prompt_tokens=requests * 700,
        completion_tokens=requests * 200,
        cancelled=number,
        estimated=number,
        failed=0,
    )
    for number, (start, requests) in enumerate(
        (
            (NOW - NOW % 86400, 9_120),
            (NOW - NOW % 3600 - 5 * 3600, 31),
            (NOW - NOW % 3600 - 3600, 1_204),
            (NOW - NOW % 3600, 412),
        )
    )
)
"""Of an hour and of a day alike: a screen takes what begins where one of its own does."""

STANDINGS = (
    KeyStanding(
        id="k7f2m9x1aa",
        name="lab",
        revoked=False,
        hour=Spent(requests=412, prompt_tokens=310_221, completion_tokens=88_001),
        day=Spent(requests=9_120, prompt_tokens=1_204_000, completion_tokens=420_551, failed=3),
        last_used=NOW - 4,
        used=QuotaFigures(requests_per_minute=31, tokens_per_day=1_624_551, concurrent=2),
        over=False,
        refused=0,
        refused_at=None,
    ),
    KeyStanding(
        id="batch00001",
        name="nightly batch",
        revoked=False,
        hour=Spent(requests=88, prompt_tokens=41_000, completion_tokens=12_345, cancelled=2),
        day=Spent(requests=1_300, prompt_tokens=610_000, completion_tokens=190_000, cancelled=2),
        last_used=NOW - 130,
        used=QuotaFigures(tokens_per_minute=40_012),
        over=True,
        refused=17,
        refused_at=NOW - 20,
    ),
    KeyStanding(
        id="gone000001",
        name="old notebook",
        revoked=False,
        hour=Spent(),
        day=Spent(requests=4, prompt_tokens=900, completion_tokens=100),
        last_used=NOW - 4 * 3600,
        used=None,
        over=False,
        refused=None,
        refused_at=None,
    ),
    KeyStanding(
        id="new0000001",
        name="ünused",
        revoked=False,
        hour=Spent(),
        day=Spent(),
        last_used=None,
        used=None,
        over=False,
        refused=None,
        refused_at=None,
    ),
    KeyStanding(
        id="revoked001",
        name=None,
        revoked=True,
        hour=Spent(),
        day=Spent(requests=55, prompt_tokens=11_000, completion_tokens=5_500),
        last_used=NOW - 7 * 3600,
        used=None,
        over=False,
        refused=None,
        refused_at=None,
    ),
)
