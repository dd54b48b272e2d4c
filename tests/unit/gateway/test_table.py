"""The table and its changes, frames, keys, cells, refusals."""

import hashlib
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.address import host_and_port
from llmgw.base.errors import Unreadable, Usage
from llmgw.gateway.auth import Holder, KeyRing
from llmgw.gateway.cells import IDLE_LOOKS, Cells, Columns
from llmgw.gateway.config import GatewayServiceConfig, check_config
from llmgw.gateway.frames import Drain, FrameReader, TableFrame, decode_to_worker, framed
from llmgw.gateway.mapped import WIDTH, create
from llmgw.gateway.refusals import CODES, Refusal, error_body, quoted
from llmgw.gateway.table import Table, TableBook, decode_table, difference, encode_table, whole
from llmgw.model.feed import KEYS, ROUTES, Batch, Change, KeyChange, Position, RouteChange
from llmgw.model.gateway import Endpoint, Route
from llmgw.model.keys import Key

TEXT = "llmgw_a1_" + "x" * 43


def key(key_id: str, text: str = TEXT, **more: object) -> Key:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Key(id=key_id, sha256=digest, name=key_id, created=0.0, **more)  # type: ignore[arg-type]


def route(model: str, *ports: int) -> Route:
    places = tuple(Endpoint(replica=f"{model}-{port}", host="h", port=port) for port in ports)
    return Route(model=model, endpoints=places)


def change(record: Route | Key | None, topic: str = ROUTES, object_id: str = "") -> Change:
    match record:
        case Route():
            return Change(topic=ROUTES, id=record.model, record=RouteChange(value=record))
        case Key():
            return Change(topic=KEYS, id=record.id, record=KeyChange(value=record))
        case None:
            return Change(topic=topic, id=object_id)


def batch(number: int, *changes: Change, listing: bool = False, more: bool = False) -> Batch:
    position = Position(epoch="e", number=number)
    return Batch(position=position, topics=(), listing=listing, more=more, changes=changes)


# The book.


def test_a_listing_replaces_the_table_only_when_it_is_whole():
    book = TableBook()
    book.restore(Table(routes={"old": route("old")}))
    assert book.apply(batch(0, change(route("a")), listing=True, more=True)) is None
    assert set(book.table.routes) == {"old"}
    assert book.position is None
    frame = book.apply(batch(5, change(route("b"))))
    assert set(book.table.routes) == {"a", "b"}
    assert frame is not None
    assert (frame.gone_routes, {one.model for one in frame.routes}) == (("old",), {"a", "b"})
    assert book.position == Position(epoch="e", number=5)


def test_half_a_listing_is_forgotten_with_its_stream():
    book = TableBook()
    book.apply(batch(0, change(route("a")), listing=True, more=True))
    book.begin()
    frame = book.apply(batch(7, change(route("c")), listing=True))
    assert set(book.table.routes) == {"c"}
    assert frame is not None


def test_changes_and_tombstones_are_applied_to_what_is_there():
    book = TableBook()
    book.apply(batch(1, change(route("a")), change(key("a1")), listing=True))
    frame = book.apply(
        batch(2, change(None, KEYS, "a1"), change(route("a", 1)), change(None, "odd", "x"))
    )
    assert (book.table.keys, book.table.routes["a"]) == ({}, route("a", 1))
    assert frame is not None
    assert (frame.gone_keys, frame.routes) == (("a1",), (route("a", 1),))


tables = st.builds(
    Table,
    routes=st.dictionaries(st.sampled_from("abc"), st.integers(0, 3)).map(
        lambda some: {name: route(name, *range(count)) for name, count in some.items()}
    ),
    keys=st.dictionaries(st.sampled_from("xyz"), st.floats(0, 2)).map(
        lambda some: {name: key(name, expires=ends) for name, ends in some.items()}
    ),
)


@given(tables, tables)
def test_a_worker_that_is_told_the_difference_has_the_table(before, after):
    frame = difference(before, after)
    routes = {k: v for k, v in before.routes.items() if k not in frame.gone_routes}
    keys = {k: v for k, v in before.keys.items() if k not in frame.gone_keys}
    assert routes | {one.model: one for one in frame.routes} == after.routes
    assert keys | {one.id: one for one in frame.keys} == after.keys
    assert difference(after, after) == TableFrame()
    assert whole(after).listing
    assert decode_table(encode_table(after)) == after


# Frames.


@given(st.lists(st.floats(0, 100), max_size=5), st.integers(1, 9))
def test_frames_are_cut_the_same_whatever_parts_they_come_in(seconds, size):
    messages = [Drain(seconds=one) for one in seconds]
    data = b"".join(framed(one) for one in messages)
    reader = FrameReader()
    frames = [f for at in range(0, len(data), size) for f in reader.feed(data[at : at + size])]
    assert [decode_to_worker(frame) for frame in frames] == messages


def test_a_frame_that_is_too_long_is_not_waited_for():
    with pytest.raises(Unreadable):
        FrameReader().feed(b"\xff\xff\xff\xff")


# Keys.


@given(st.binary(max_size=80))
def test_no_header_makes_checking_raise_or_passes_for_a_key(header):
    ring = KeyRing()
    ring.replace([key("a1")])
    ring.received = ring.current = ring.sure = True
    assert isinstance(ring.check(header, 0.0), Refusal)
    assert isinstance(ring.check(b"Bearer " + header, 0.0), Refusal)


def test_a_key_holds_until_it_ends_and_for_its_models_alone():
    ring = KeyRing()
    ring.received = True
    ring.put(key("a1", expires=100.0, models=("m",)))
    holder = ring.check(b"bearer  " + TEXT.encode(), 99.9)
    assert isinstance(holder, Holder)
    assert (holder.may_use("m"), holder.may_use("n")) == (True, False)
    ended = ring.check(b"Bearer " + TEXT.encode(), 100.0)
    assert isinstance(ended, Refusal)
    assert ended.code == "expired_api_key"
    ring.remove("a1")
    assert isinstance(ring.check(b"Bearer " + TEXT.encode(), 0.0), Refusal)


# Cells.


def test_a_column_is_not_given_to_another_while_requests_run_there():
    cells = Cells.private()
    columns = Columns(cells.load)
    first = columns.of("a")
    assert columns.of("a") == first
    cells.add(first, 2)
    columns.keep([])
    assert columns.of("b") != first
    cells.add(first, -2)
    columns.keep([])
    assert first in {columns.of(name) for name in map(str, range(WIDTH - 1))}


def test_what_a_replica_that_left_still_has_is_told_until_it_ended():
    cells = Cells.private()
    columns = Columns(cells.load)
    a, b = columns.of("a"), columns.of("b")
    cells.add(a, 2)
    assert columns.in_flight() == {"a": 2}
    columns.keep(["b"])
    cells.add(b, 1)
    for _ in range(3 * IDLE_LOOKS):
        assert columns.in_flight() == {"a": 2, "b": 1}
    cells.add(a, -2)
    for _ in range(IDLE_LOOKS - 1):
        assert columns.in_flight() == {"b": 1}
    cells.add(a, 1)  # a worker that had not heard yet
    assert columns.in_flight() == {"a": 1, "b": 1}
    cells.add(a, -1)
    for _ in range(IDLE_LOOKS):
        columns.in_flight()
    cells.add(a, 1)
    assert columns.in_flight() == {"b": 1}


def test_engines_beyond_the_width_share_the_last_column():
    columns = Columns(lambda column: 0)
    given_ = [columns.of(str(number)) for number in range(WIDTH + 5)]
    assert len(set(given_[: WIDTH - 1])) == WIDTH - 1
    assert set(given_[WIDTH - 1 :]) == {WIDTH - 1}
    columns.keep([str(number) for number in range(WIDTH - 1, WIDTH + 5)])
    assert columns.of("new") != WIDTH - 1


def test_models_that_share_the_last_column_are_told_apart_while_they_wait():
    fd = create(3)
    try:
        mine, other = Cells.attach(fd, 0), Cells.attach(fd, 1)
        last = WIDTH - 1
        for _ in range(2):
            mine.wait(last, waits=True)
        mine.wait(last, waits=False)
        assert (mine.waiting_elsewhere(last), other.waiting_elsewhere(last)) == (0, 1)
        for _ in range(300):
            other.wait(last, waits=True)
        assert mine.waiting_elsewhere(last) == 1
        mine.clear_row(1)
        assert mine.waiting_elsewhere(last) == 0
    finally:
        os.close(fd)


# Words.


@given(st.text(max_size=300), st.sampled_from(sorted(CODES)))
def test_an_error_shows_no_control_character_and_no_line_end(text, code):
    body = error_body(code, f"model {quoted(text)}", text)
    assert body.isascii()
    assert all(0x20 <= byte < 0x7F for byte in body)
    assert set(json.loads(body)["error"]) == {"message", "type", "param", "code"}


def test_every_code_has_an_error_status_and_words():
    for status, kind, words in CODES.values():
        assert 400 <= status < 600
        assert kind.endswith("_error") or (status, kind in {"requests", "tokens"}) == (429, True)
        assert words.endswith(".")


def test_a_refusal_that_can_be_retried_says_when():
    refusal = Refusal("no_replica", "x", None, 0)
    assert b"retry-after: 1\r\n" in refusal.headers()


# The configuration.


@pytest.mark.parametrize(
    ("text", "parts"),
    [("0.0.0.0:7440", ("0.0.0.0", 7440)), ("[::1]:0", ("::1", 0)), ("host:1", ("host", 1))],
)
def test_addresses_are_read_with_their_port(text, parts):
    assert host_and_port(text, "listen", listening=True) == parts


@pytest.mark.parametrize(
    "text", ["", "7440", "host", "host:", ":7440", "host:x", "host:70000", "host:-1"]
)
def test_what_is_no_address_is_refused_by_its_field(text):
    with pytest.raises(Usage, match="listen"):
        check_config(GatewayServiceConfig(listen=text))


def test_a_control_plane_that_is_no_address_is_refused():
    with pytest.raises(Usage, match="control_planes"):
        check_config(GatewayServiceConfig(control_planes=("head",)))
