"""The demo as somebody meets it: real engine, real model, and nothing left afterwards."""

import http.client
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from llmgw.base.errors import Refused, Unreachable
from llmgw.base.secrets import Secret
from llmgw.local.reply import complete
from tests.flow.tui.terminals import Terminal
from tests.processes import with_environ
from tests.waiting import wait_for

pytestmark = pytest.mark.real

ROW = re.compile(r"^(reply|tokens/s|node|replica|engine|back end|plan) +(.+)$", re.MULTILINE)

ALTERNATE_SCREEN, LEFT = "\x1b[?1049h", "\x1b[?1049l"
CLEAR_LINE = "\r\x1b[K"

DEMO = [sys.executable, "-m", "llmgw", "demo"]


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose state is apart, and whose downloads are kept."""
    return {**os.environ, "XDG_STATE_HOME": str(tmp_path), "LLMGW_DEMO_TEST": str(tmp_path)}


def left_of(home: dict[str, str]) -> list[str]:
    """Return what still runs of a demo: everything it starts inherits its environment."""
    mark = home["LLMGW_DEMO_TEST"]
    found = with_environ("XDG_STATE_HOME", mark)
    return [" ".join(seen.argv)[:100] for seen in found]


def test_once_prints_a_real_reply_and_leaves_nothing(home: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [*DEMO, "--once", "--dir", str(tmp_path / "demo")],
        env=home,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "simulated" not in done.stdout + done.stderr
    rows = dict(
        re.findall(
            r"^(reply|tokens/s|node|replica|engine|back end|plan) +(.+)$", done.stdout, re.MULTILINE
        )
    )
    assert float(rows["tokens/s"]) > 0
    assert int(rows["reply"].split()[0]) >= 8
    assert "http://127.0.0.1:" in rows["reply"]
    assert rows["node"] == "demo"
    assert rows["engine"].startswith("llamacpp ")
    assert rows["back end"] == "CPU" or rows["back end"].startswith(("CUDA", "Vulkan"))
    assert rows["replica"] in rows["plan"]
    assert left_of(home) == []
    assert _listening_below(tmp_path) == []


def _listening_below(directory: Path) -> list[str]:
    """Return services of that directory that still listen."""
    told = [json.loads(f.read_text()) for f in directory.rglob("server.ready")]
    ports = [urlsplit(one["admin"]).port for one in told]
    listening = Path("/proc/net/tcp").read_text()
    return [str(port) for port in ports if f":{port:04X} 00000000:0000 0A" in listening]


@pytest.fixture
def headless(home: dict[str, str]) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    process = subprocess.Popen(
        [*DEMO, "--simulated", "--headless"], env=home, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process, json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        wait_for(lambda: left_of(home) == [], 30)


def ask(told: dict[str, Any]) -> str:
    return complete(
        told["gateway"], Secret(told["key"]), told["model"], "hi", tokens=4, on_text=lambda _: None
    ).text


def answers(told: dict[str, Any]) -> bool:
    try:
        return bool(ask(told))
    except Refused:
        return False


def test_headless_tells_where_it_serves_and_ends_when_it_is_interrupted(
    headless: tuple[subprocess.Popen[str], dict[str, Any]], home: dict[str, str]
) -> None:
    process, told = headless
    assert ask(told)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    assert left_of(home) == []


def test_the_reply_comes_through_the_gateway_and_from_nowhere_else(
    headless: tuple[subprocess.Popen[str], dict[str, Any]], home: dict[str, str]
) -> None:
    _, told = headless
    assert ask(told)
    gateway = [
        seen.pid
        for seen in with_environ("XDG_STATE_HOME", home["LLMGW_DEMO_TEST"])
        if seen.argv[2:4] == ("llmgw", "gateway")
    ]
    assert len(gateway) == 1
    os.kill(gateway[0], signal.SIGKILL)
    port = urlsplit(told["gateway"]).port

    def refused() -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/healthz")
            connection.getresponse().read()
        except OSError:
            return True
        finally:
            connection.close()
        return False

    wait_for(refused, 10, what="no worker listens without its gateway")
    with pytest.raises(Unreachable):
        ask(told)


def test_everything_ends_when_the_demo_itself_is_killed(
    headless: tuple[subprocess.Popen[str], dict[str, Any]], home: dict[str, str]
) -> None:
    process, told = headless
    assert ask(told)
    assert len(left_of(home)) >= 6
    process.kill()
    process.wait()
    wait_for(lambda: left_of(home) == [], 30, what="the watcher ends everything")
    assert list(Path(home["XDG_STATE_HOME"]).glob("llmgw/demo-*")) == []


def test_without_a_terminal_the_console_is_refused_with_a_hint(home: dict[str, str]) -> None:
    done = subprocess.run(DEMO, env=home, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "terminal" in done.stderr
    assert "Traceback" not in done.stderr
    assert left_of(home) == []


def test_the_console_of_a_demo_comes_with_an_address_a_key_and_a_command(
    home: dict[str, str], tmp_path: Path
) -> None:
    argv = [*DEMO, "--simulated", "--dir", str(tmp_path / "demo")]
    with Terminal(argv, columns=100, lines=30, environ=home) as opened:
        opened.wait_text("1/1 models answer")
        printed = bytes(opened.output).decode().partition(ALTERNATE_SCREEN)[0]
        printed = printed.replace(CLEAR_LINE, "\n")
        rows = dict(re.findall(r"^(gateway|API key|ask it) +(.+?)\r?$", printed, re.MULTILINE))
        gateway = rows["gateway"].removesuffix("/v1")
        told = {"gateway": gateway, "key": rows["API key"], "model": "simulated"}
        wait_for(lambda: answers(told), 10, what="the gateway has heard what the console shows")
        argv = shlex.split(rows["ask it"])
        assert argv[:2] == ["curl", f"{gateway}/v1/completions"]
        assert f"Authorization: Bearer {rows['API key']}" in argv
        assert json.loads(argv[-1])["model"] == "simulated"
        opened.send("q")
        assert opened.exit_code() == 0
        after = bytes(opened.output).decode().rpartition(LEFT)[2]
        assert f"the demo ends: {gateway} and its key answer no more" in after
    secret = rows["API key"].rpartition("_")[2].encode()
    kept = [path for path in (tmp_path / "demo").rglob("*") if path.is_file()]
    assert kept
    assert [path for path in kept if secret in path.read_bytes()] == []
    assert left_of(home) == []
