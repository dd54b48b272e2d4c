import errno
import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from llmgw.base import log
from llmgw.base.log import LogRing


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    handlers, level = logging.getLogger().handlers[:], logging.getLogger().level
    yield
    logging.getLogger().handlers[:] = handlers
    logging.getLogger().setLevel(level)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def _lines(out: io.StringIO) -> list[str]:
    return out.getvalue().splitlines()


def test_a_pipe_gets_one_json_object_an_event() -> None:
    out = io.StringIO()
    log.setup("agent", out=out)
    log.get("llmgw.x").info("node is ready", node="gpu-03")
    event = json.loads(_lines(out)[0])
    assert event["event"] == "node is ready"
    assert event["node"] == "gpu-03"
    assert event["service"] == "agent"


def test_secrets_are_hidden_in_lines_and_in_the_ring() -> None:
    out, ring = io.StringIO(), LogRing()
    log.setup("agent", out=out, ring=ring)
    secret = "llmgw_abc_" + "s3cr3t" * 6
    log.get("x").warning("refused", key=secret, text=f"Bearer {secret}")
    assert "s3cr3t" not in out.getvalue() + "\n".join(ring.tail(5))


def test_secrets_are_hidden_in_tracebacks() -> None:
    out = io.StringIO()
    log.setup("agent", out=out)
    secret = "llmgw_abc_" + "s3cr3t" * 6
    try:
        int(secret)
    except ValueError as error:
        log.get("x").warning("failed", exc_info=error)
    assert "ValueError" in out.getvalue()
    assert "s3cr3t" not in out.getvalue()


class FullDisk(io.StringIO):
    """A log file on a disk that is full as long as a test says so."""

    full = False

    def flush(self) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("as_json", [True, False])
def test_a_log_that_cant_be_written_stops_nothing_and_says_afterwards_what_is_missing(
    as_json: bool,
) -> None:
    out, ring = FullDisk(), LogRing()
    log.setup("server", out=out, json_lines=as_json, ring=ring)
    logger = log.get("x")
    out.full = True
    for number in range(3):
        logger.info("lost", number=number)
    out.full = False
    out.truncate(0)
    logger.info("back")
    first, second = _lines(out)
    assert "up to 3 lines before this one are missing" in first
    assert "back" in second
    assert len(ring.tail(9)) == 4
    out.close()
    logger.info("nobody reads this")


def test_a_line_for_people_holds_no_escapes_and_no_other_line() -> None:
    out, ring = io.StringIO(), LogRing()
    log.setup("server", out=out, json_lines=False, ring=ring)
    words = "n1 \x1b[2Jis gone\n2026-01-31T12:00:00Z error x: forged"
    log.get("x").warning(words, why="\x9b0m\r\nforged")
    log.get("x").warning("failed", exc_info=ValueError("\x1b]0;title\x07"))
    for text in (out.getvalue(), *ring.tail(9)):
        assert not {"\x1b", "\x9b", "\r", "\x07"} & set(text)
    assert "\\x1b[2Jis gone\\n2026" in ring.tail(2)[0]
    assert len(ring.tail(2)[0].splitlines()) == 1


def test_lines_below_the_level_are_not_written() -> None:
    out = io.StringIO()
    log.setup("agent", out=out, level="warning")
    log.get("x").info("quiet")
    assert not _lines(out)


def test_what_libraries_warn_of_comes_out_as_ours() -> None:
    out = io.StringIO()
    log.setup("agent", out=out)
    logging.getLogger("grpclib").warning("peer %s went away", "a")
    assert json.loads(_lines(out)[0])["event"] == "peer a went away"


def test_a_line_break_in_a_value_stays_one_line_of_text() -> None:
    ring = LogRing()
    log.setup("agent", out=io.StringIO(), ring=ring)
    log.get("x").info("said", words="a\nb\x1b[2J")
    assert len(ring.tail(5)) == 1
    assert "\x1b" not in ring.tail(1)[0]
    assert "\n" not in ring.tail(1)[0]


def test_the_ring_keeps_the_last_lines_and_tells_followers() -> None:
    seen: list[str] = []
    ring = LogRing(lines=2)
    end = ring.follow(seen.append)
    for line in ("a", "b", "c"):
        ring.add(line)
    end()
    ring.add("d")
    assert ring.tail(10) == ("c", "d")
    assert seen == ["a", "b", "c"]
    assert ring.tail(0) == ()
