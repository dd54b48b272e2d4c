"""A helper program for tests: answers, fails, tells progress, hangs or dies, as it is asked."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from llmgw.base.errors import Refused
from llmgw.model.record import Record
from llmgw.model.shard import Progress
from llmgw_agent.host.helper_once import Say, serve_one
from llmgw_agent.host.helper_side import serve


class Do(Record, frozen=True, kw_only=True):
    """What to do, with an argument."""

    what: str
    text: str = ""


class Did(Record, frozen=True, kw_only=True):
    """What came of it."""

    text: str
    pid: int


def answer(line: bytes) -> Did:
    request = msgspec.json.decode(line, type=Do)
    match request.what:
        case "hang":
            time.sleep(3600)  # noqa: TID251
        case "refuse":
            raise Refused("no room", hint="make some")
        case "break":
            raise ZeroDivisionError(request.text)
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "garbage":
            print("this is no answer", flush=True)
        case "environ":
            return Did(text=os.environ.get(request.text, "(not set)"), pid=os.getpid())
        case _:
            pass
    return Did(text=request.text, pid=os.getpid())


async def answer_one(line: bytes, say: Say) -> Did:
    request = msgspec.json.decode(line, type=Do)
    child = subprocess.Popen(["sleep", "3600"], start_new_session=True)  # noqa: ASYNC220
    try:
        say(Progress(words="one", done_bytes=1))
        say(Progress(words="two", done_bytes=2, total_bytes=2))
        if request.what == "wait":
            _note(request.text, child.pid)
            await asyncio.Event().wait()
        return Did(text=request.text, pid=os.getpid())
    finally:
        child.kill()
        child.wait()


def _note(path: str, pid: int) -> None:
    Path(path).write_text(str(pid))


if __name__ == "__main__":
    serve_one(answer_one) if sys.argv[1:] == ["one"] else serve(answer)
