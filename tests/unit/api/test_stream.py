"""Server-sent events end well, whoever ends them."""

from starlette.applications import Starlette

from llmgw.base.errors import Unreachable
from llmgw.control.api.stream import COMMENT_SECONDS
from llmgw.model.commands import LogLines
from tests.fakes.clock import FakeClock, settle
from tests.fakes.plane import FakePlane
from tests.fakes.plane_records import ENGINE_KEY, keyed_route
from tests.unit.api.asking import Streamed

WATCH = "/api/v1/watch?topics=nodes,routes"
LOGS = "/api/v1/nodes/atlas/logs/follow"


def watch(app: Starlette, plane: FakePlane, target: str = WATCH) -> Streamed:
    return Streamed(app, target, plane.tokens_by_role["read"])


async def test_without_a_position_a_listing_comes_first(
    app: Starlette, plane: FakePlane, clock: FakeClock
) -> None:
    async with watch(app, plane) as stream:
        await clock.advance(1)
        (event,) = stream.events
        assert stream.status == 200
        assert event["listing"] is True
        assert event["more"] is False
        assert event["position"]["epoch"] == "epoch-1"
        assert [(one["topic"], one["id"]) for one in event["changes"]] == [
            ("nodes", "atlas"),
            ("routes", "gemma3-270m"),
        ]


async def test_changes_come_as_one_event_a_batch_and_removals_as_null(
    app: Starlette, plane: FakePlane, clock: FakeClock
) -> None:
    position = plane.feed.position()
    target = f"{WATCH}&epoch={position.epoch}&number={position.number}"
    async with watch(app, plane, target) as stream:
        await clock.advance(0.3)
        assert stream.events[0]["changes"] == []
        plane.fake_fleet.put("nodes", "atlas", None)
        plane.fake_fleet.put("routes", "tiny", keyed_route("tiny", "tiny-000001"))
        plane.fake_fleet.put("routes", "tiny", keyed_route("tiny", "tiny-000002"))
        await clock.advance(0.3)
        _, event = stream.events
        assert event["listing"] is False
        assert event["position"]["number"] == position.number + 3
        nodes, routes = event["changes"]
        assert nodes == {"topic": "nodes", "id": "atlas", "record": None}
        assert routes["record"]["endpoints"][0]["replica"] == "tiny-000002"
        assert ENGINE_KEY not in stream.body.decode()


async def test_a_position_of_another_epoch_is_answered_with_a_listing(
    app: Starlette, plane: FakePlane, clock: FakeClock
) -> None:
    async with watch(app, plane, f"{WATCH}&epoch=before&number=3") as stream:
        await clock.advance(0.3)
        assert stream.events[0]["listing"] is True


async def test_a_comment_comes_each_fifteen_seconds(
    app: Starlette, plane: FakePlane, clock: FakeClock
) -> None:
    async with watch(app, plane) as stream:
        await clock.advance(COMMENT_SECONDS - 1)
        assert b":\n\n" not in stream.body
        await clock.advance(1)
        assert stream.body.count(b":\n\n") == 1
        await clock.advance(COMMENT_SECONDS * 2)
        assert stream.body.count(b":\n\n") == 3


async def test_the_headers_say_what_it_is(app: Starlette, plane: FakePlane) -> None:
    async with watch(app, plane) as stream:
        await settle()
        headers = dict(stream.messages[0]["headers"])
        assert headers[b"content-type"].startswith(b"text/event-stream")
        assert headers[b"cache-control"] == b"no-store"
        assert b"content-length" not in headers


async def test_a_client_that_goes_leaves_no_follower(
    app: Starlette, plane: FakePlane, clock: FakeClock
) -> None:
    async with watch(app, plane) as stream:
        await clock.advance(1)
        assert plane.feed.followers == 1
        stream.leave()
        await settle()
        assert plane.feed.followers == 0
        assert stream.task is not None
        assert stream.task.done()
        assert stream.task.exception() is None


async def test_a_server_that_stops_ends_it_properly(
    app: Starlette, plane: FakePlane, clock: FakeClock
) -> None:
    async with watch(app, plane) as stream:
        await clock.advance(1)
        app.state.ending.set()
        await settle()
        assert stream.over
        assert plane.feed.followers == 0


async def test_the_end_of_the_feed_ends_it_properly(
    app: Starlette, plane: FakePlane, clock: FakeClock
) -> None:
    async with watch(app, plane) as stream:
        await clock.advance(1)
        plane.feed.close()
        await clock.advance(1)
        assert stream.over


async def test_a_client_that_does_not_read_is_ended_with_the_server(
    app: Starlette, plane: FakePlane, clock: FakeClock
) -> None:
    async with watch(app, plane) as stream:
        await clock.advance(1)
        stream.stall()
        plane.fake_fleet.put("nodes", "atlas", None)
        await clock.advance(1)
        assert len(stream.events) == 1
        app.state.ending.set()
        await settle()
        assert plane.feed.followers == 1
        stream.read()
        await settle()
        assert stream.over
        assert plane.feed.followers == 0


async def test_a_client_that_does_not_read_skips_states_and_goes_on(
    app: Starlette, plane: FakePlane, clock: FakeClock
) -> None:
    async with watch(app, plane) as stream:
        await clock.advance(1)
        stream.stall()
        for number in range(50):
            plane.fake_fleet.put("routes", "tiny", keyed_route("tiny", f"tiny-{number:06d}"))
            await clock.advance(1)
        stream.read()
        await clock.advance(1)
        told = [e["changes"][0]["record"]["endpoints"][0]["replica"] for e in stream.events[1:]]
        assert len(told) <= 3
        assert told[-1] == "tiny-000049"


async def test_it_ends_when_its_token_is_removed(
    app: Starlette, plane: FakePlane, clock: FakeClock
) -> None:
    token, text = await plane.tokens.make("read", "short", actor="anna")
    async with Streamed(app, WATCH, text) as stream:
        await clock.advance(1)
        await plane.tokens.remove(token.id, actor="anna")
        await clock.advance(COMMENT_SECONDS)
        assert stream.over
        assert plane.feed.followers == 0


async def test_log_lines_are_followed(app: Starlette, plane: FakePlane) -> None:
    plane.fake_agents.later = [LogLines(request="r", lines=("more",), dropped=3)]
    async with watch(app, plane, f"{LOGS}?lines=1") as stream:
        await settle()
        assert stream.events == [
            {"lines": ["registered with 127.0.0.1:7442"], "dropped": 0},
            {"lines": ["more"], "dropped": 3},
        ]
        assert stream.over
        assert plane.fake_agents.following == 0


async def test_what_ends_a_log_is_told_in_the_stream(app: Starlette, plane: FakePlane) -> None:
    plane.fake_agents.later = [Unreachable("the stream is gone", hint="wait")]
    async with watch(app, plane, LOGS) as stream:
        await settle()
        assert (
            b'event: error\ndata: {"error":{"code":"unreachable","message":"the stream is gone"'
            in stream.body
        )
        assert stream.over


async def test_a_fault_of_ours_is_told_without_its_words(app: Starlette, plane: FakePlane) -> None:
    plane.fake_agents.later = [RuntimeError("inside")]  # type: ignore[list-item]
    async with watch(app, plane, LOGS) as stream:
        await settle()
        assert b"event: error" in stream.body
        assert b"inside" not in stream.body
        assert stream.over


async def test_followers_that_come_and_go_leave_nothing(
    app: Starlette, plane: FakePlane, clock: FakeClock
) -> None:
    for _ in range(20):
        async with watch(app, plane) as stream:
            await settle()
            stream.leave()
    assert plane.feed.followers == 0
    assert plane.fake_agents.following == 0
