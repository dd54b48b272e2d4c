"""Ports, environment, the engine's output, states: the small parts of supervising."""

from pathlib import Path

import msgspec
import pytest

from llmgw.base.errors import NotFound, Refused, Usage
from llmgw.base.secrets import Secret
from llmgw.model.shard import ShardSpec, ShardStatus
from llmgw_agent.engines.llamacpp import LlamaCpp
from llmgw_agent.supervise import engine_log
from llmgw_agent.supervise.book import Book, parse_source
from llmgw_agent.supervise.engine_log import RING_LINES, EngineLog
from llmgw_agent.supervise.environment import (
    engine_environment,
    network_environment,
    shard_of,
)
from llmgw_agent.supervise.life import how_it_ended
from llmgw_agent.supervise.ports import PortRange, choose_port
from llmgw_agent.supervise.shard import Shard
from tests.fakes.clock import FakeClock
from tests.fakes.machine import MemoryFiles
from tests.fakes.node import shard_spec

LOG = Path("/s/engine.log")


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


def test_a_range_of_ports_is_read():
    assert PortRange.parse("7500-7999") == PortRange(7500, 7999)
    assert PortRange.parse("7500") == PortRange(7500, 7500)


@pytest.mark.parametrize("text", ["", "a-b", "7999-7500", "0-10", "1-70000", "7500-", "-5"])
def test_what_is_no_range_is_refused(text: str):
    if text == "7500-":
        assert PortRange.parse(text) == PortRange(7500, 7500)
        return
    with pytest.raises(Usage, match="is not a range of ports"):
        PortRange.parse(text)


def test_a_port_that_is_held_or_busy_is_passed_over():
    ports = PortRange(10, 12)
    assert choose_port(ports, "s", {10, 11}, lambda port: True) == 12
    assert choose_port(ports, "s", {10}, lambda port: port == 11) == 11
    assert choose_port(ports, "s", {10, 11, 12}, lambda port: True) is None
    assert choose_port(ports, "s", (), lambda port: False) is None


def test_shards_begin_at_different_places_of_the_range():
    ports = PortRange(7500, 7999)
    chosen = {choose_port(ports, f"r{n}/0", (), lambda port: True) for n in range(20)}
    assert len(chosen) > 15


def test_cards_reach_an_engine_by_their_uuids():
    environment = engine_environment(
        {}, libraries=(), devices=("GPU-a", "MIG-b"), shard="s", state="t", own={"X": "1"}
    )
    assert environment == {
        "CUDA_VISIBLE_DEVICES": "GPU-a,MIG-b",
        "X": "1",
        "LLMGW_SHARD": "s",
        "LLMGW_STATE": "t",
    }


def test_shards_of_one_nvlink_domain_and_of_one_network_are_told_so():
    spec = ShardSpec(replica="r", model="m", profile="p", fingerprint="f", engine="vllm")
    assert network_environment(spec) == {}
    joined = msgspec.structs.replace(spec, nvlink_domain="c0ffee/7")
    assert network_environment(joined) == {"NCCL_MNNVL_ENABLE": "1"}
    railed = msgspec.structs.replace(spec, network_ports=("mlx5_0/1", "mlx5_10/1"))
    assert network_environment(railed) == {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_10:1"}


def test_an_engine_can_not_override_whose_it_is():
    own = {"LLMGW_STATE": "other", "LLMGW_SHARD": "other"}
    environment = engine_environment({}, libraries=(), devices=(), shard="s", state="t", own=own)
    assert (environment["LLMGW_SHARD"], environment["LLMGW_STATE"]) == ("s", "t")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("c/n/tiny-1/3", ("tiny-1", 3)),
        ("tiny-1/3", None),
        ("c/n//0", None),
        ("c/n/r/x", None),
        ("c/n/r/-1", None),
        ("", None),
    ],
)
def test_a_shards_name_is_read_from_an_environment(text: str, found: object):
    assert shard_of({"LLMGW_SHARD": text}) == found


def test_lines_come_whole_however_they_were_written(files: MemoryFiles):
    log = EngineLog(files, LOG)
    files.append(LOG, b"one\ntw")
    log.poll()
    files.append(LOG, "o\r\nth\u00e9".encode()[:-1])
    log.poll()
    assert log.ring.tail(10) == ("one", "two")
    files.append(LOG, "th\u00e9".encode()[-1:])
    log.finish()
    assert log.ring.tail(1) == ("th\u00e9",)


def test_only_the_last_lines_are_kept(files: MemoryFiles):
    log = EngineLog(files, LOG)
    files.append(LOG, b"".join(b"line %d\n" % n for n in range(2 * RING_LINES)))
    log.poll()
    assert len(log.ring.tail(10_000)) == RING_LINES
    assert log.ring.tail(1) == (f"line {2 * RING_LINES - 1}",)


def test_a_file_that_has_grown_too_long_is_emptied_in_place(
    files: MemoryFiles, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(engine_log, "FILE_MOST", 1000)
    log = EngineLog(files, LOG)
    files.append(LOG, (b"x" * 99 + b"\n") * 9)
    log.poll()
    assert len(files.content[LOG]) == 900
    files.append(LOG, b"x" * 99 + b"\n")
    log.poll()
    assert files.content[LOG] == b""
    files.append(LOG, b"goes on\n")
    log.poll()
    assert log.ring.tail(1) == ("goes on",)


def test_a_file_that_somebody_emptied_is_read_from_its_beginning(files: MemoryFiles):
    log = EngineLog(files, LOG)
    files.append(LOG, b"a long first line\n")
    log.poll()
    files.content[LOG] = b"new\n"
    log.poll()
    assert log.ring.tail(1) == ("new",)


def test_a_line_that_never_ends_fills_no_memory(files: MemoryFiles):
    log = EngineLog(files, LOG)
    files.append(LOG, b"y" * (1 << 20))
    log.poll()
    files.append(LOG, b"\n")
    log.poll()
    assert len(log.ring.tail(1)[0]) < 2100


def test_terminal_escapes_and_secrets_are_not_shown(files: MemoryFiles):
    log = EngineLog(files, LOG, Secret("k3y-of-the-replica"))
    files.append(LOG, b"\x1b[31mred\x1b[0m \x1b]0;title\x07a\tb\x00c\n")
    files.append(LOG, b"Authorization: Bearer abcdefghijkl\n")
    files.append(LOG, b"got k3y-of-the-replica\n")
    files.append(LOG, b"init: api_keys: ****3456\n")
    log.poll()
    assert log.ring.tail(4) == (
        "red a    bc",
        "Authorization: Bearer ***",
        "got ***",
        "init: api_keys: ***",
    )


def test_only_the_end_of_a_long_file_is_read_again(files: MemoryFiles):
    files.append(LOG, b"".join(b"line %06d\n" % n for n in range(20_000)))
    log = EngineLog(files, LOG)
    log.resume()
    assert log.ring.tail(1) == ("line 019999",)
    assert len(log.ring.tail(10_000)) == RING_LINES


def test_an_unreadable_file_is_no_end(files: MemoryFiles):
    class Broken(MemoryFiles):
        def size(self, path: Path) -> int | None:
            return 10

        def read_part(self, path: Path, offset: int, most: int) -> bytes:
            raise OSError(5, "Input/output error")

    log = EngineLog(Broken(), LOG)
    log.poll()
    log.poll()
    assert log.ring.tail(10) == ()
    assert log.start_up() == ()


def test_llmgws_own_lines_are_not_the_engines(files: MemoryFiles):
    log = EngineLog(files, LOG)
    log.note("started pid 1")
    files.append(LOG, b"hello\n")
    log.poll()
    assert log.last(10) == ("hello",)
    assert log.ring.tail(10) == ("llmgw: started pid 1", "hello")


def test_no_way_leads_out_of_an_end():
    told: list[ShardStatus] = []
    files = MemoryFiles()
    shard = Shard(
        shard_spec(),
        state="starting",
        adapter=LlamaCpp(),
        key=None,
        log=EngineLog(files, LOG),
        clock=FakeClock(),
        report=told.append,
        keep=lambda shard: None,
    )
    shard.move("failed", "because")
    with pytest.raises(ValueError, match="no way from failed to ready"):
        shard.move("ready")
    assert [s.state for s in told] == ["failed"]


def test_a_directory_is_made_of_ids_alone():
    book = Book(MemoryFiles(), Path("/state"))
    assert book.directory("tiny-abc123", 3) == Path("/state/shards/tiny-abc123.3")
    for replica, rank in (("..", 0), ("a/b", 0), ("a", -1), ("a", 10_000), ("-a", 0), ("a.b", 0)):
        with pytest.raises(Refused):
            book.directory(replica, rank)


def test_a_logs_source_is_a_shards_id():
    assert parse_source("tiny-abc123/2") == ("tiny-abc123", 2)
    for text in ("tiny", "tiny/", "/0", "../x/0", "tiny/x", "tiny/-1", ""):
        with pytest.raises(NotFound):
            parse_source(text)


@pytest.mark.parametrize(
    ("rc", "words"),
    [
        (0, "exited with code 0"),
        (134, "exited with code 134"),
        (-6, "was ended by signal SIGABRT"),
        (-99, "was ended by signal number 99"),
        (None, "ended; the exit status of pid 7 went to the agent that started it"),
    ],
)
def test_an_end_in_words(rc: int | None, words: str):
    assert how_it_ended(rc, 7) == words
