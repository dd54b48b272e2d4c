"""`llmgw server` as a process: one line when it is ready, one line when it can't be, exit codes."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from llmgw.base.errors import EXIT_OK, EXIT_REFUSED, EXIT_USAGE


async def start(tmp_path: Path, *flags: str) -> asyncio.subprocess.Process:
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("LLMGW_")},
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    flags = ("--admin", "127.0.0.1:0", "--link", "127.0.0.1:0", *flags)
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "llmgw", "server", "--print-ready"),
        *flags,
        env=environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def refusal(process: asyncio.subprocess.Process) -> tuple[int | None, list[str]]:
    """Return how it ended and what it said to a person: what is no log line."""
    async with asyncio.timeout(30):
        out, err = await process.communicate()
    assert out == b""
    return process.returncode, [
        line for line in err.decode().splitlines() if not line.startswith("{")
    ]


async def test_it_says_when_it_is_ready_refuses_a_second_and_ends_when_told(
    tmp_path: Path,
) -> None:
    state = ("--state-dir", str(tmp_path / "state"))
    first = await start(tmp_path, *state)
    try:
        assert first.stdout is not None
        async with asyncio.timeout(30):
            ready = json.loads(await first.stdout.readline())
        assert ready["admin"].startswith("http://127.0.0.1:")
        assert (ready["context"], ready["pid"]) == ("local", first.pid)

        code, lines = await refusal(await start(tmp_path, *state))
        assert code == EXIT_REFUSED
        assert len(lines) == 2
        assert f"(pid {first.pid}) holds this store" in lines[0]

        taken = ready["admin"].removeprefix("http://")
        other = ("--state-dir", str(tmp_path / "other"), "--admin", taken)
        code, lines = await refusal(await start(tmp_path, *other))
        assert code == EXIT_USAGE
        assert len(lines) == 2
        assert taken in lines[0]
    finally:
        first.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            _, log = await first.communicate()
    assert first.returncode == EXIT_OK
    assert b"Traceback" not in log
