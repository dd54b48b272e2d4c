"""What a message at the link's size limit costs the control plane, for each list that agents send.

python -m tests.bench.huge_messages [--json]
"""

import argparse
import asyncio
import io
import json
import sys
import time
import typing
from collections.abc import Iterator
from typing import Any

import msgspec

from llmgw.base import log
from llmgw.control.agents import Agents
from llmgw.link import codec
from llmgw.link.guard import MESSAGE_LIMIT
from llmgw.model.device import DeviceHealth, DeviceSample
from llmgw.model.fabric import Port
from llmgw.model.link import AgentMessage
from llmgw.model.node import Heartbeat, Inventory, Register
from llmgw.model.shard import ShardStatus
from llmgw_proto import convert
from tests.fakes.clock import FakeClock, settle
from tests.fakes.planes import make_plane
from tests.fakes.scripted_agent import FakeAgent

NODE = "gpu-01"
_STATES = {"Port": "ACTIVE", "ShardStatus": "failed", "InstalledEngine": "failed"}
_SIZE = MESSAGE_LIMIT - (64 << 10)


def messages() -> Iterator[tuple[str, AgentMessage]]:
    """Yield, for each list, a message that holds as much of it as fits, each item another."""
    for kind in (Heartbeat, Inventory, Register, ShardStatus):
        name = {"ShardStatus": "shard"}.get(kind.__name__, kind.__name__.lower())
        for field in _lists(kind):
            said = _filled(kind, 0, **{field.name: _many(field)})
            yield f"{name}.{field.name}", AgentMessage(**{name: said})
    for nested, field in ((DeviceHealth, "xids"), (DeviceSample, "foreign"), (Port, "counters")):
        one = next(found for found in _lists(nested) if found.name == field)
        inner = _filled(nested, 0, **{field: _many(one)})
        place = {"xids": "health", "foreign": "devices", "counters": "ports"}[field]
        beat = _filled(Heartbeat, 0, **{place: (inner,)})
        yield f"heartbeat.{place}.{field}", AgentMessage(heartbeat=beat)
    text = "x" * _SIZE
    probe = _filled(typing.cast("type[msgspec.Struct]", _item(_probes())), 0, error=text)
    yield "one text", AgentMessage(heartbeat=Heartbeat(sequence=1, probes=(probe,)))


def _probes() -> Any:
    return next(one for one in _lists(Heartbeat) if one.name == "probes")


def _lists(kind: type[msgspec.Struct]) -> list[Any]:
    return [one for one in msgspec.structs.fields(kind) if _item(one) is not None]


def _item(field: Any) -> type | None:
    options = [field.type, *typing.get_args(field.type)]
    found = [one for one in options if typing.get_origin(one) is tuple]
    item: type | None = typing.get_args(found[0])[0] if found else None
    return item


def _many(field: Any) -> tuple[Any, ...]:
    item = _item(field)
    if item is str or item is None:
        return tuple(f"x{number}" for number in range(_SIZE // 12))
    made: list[Any] = []
    size = cost = 0
    while size < _SIZE:
        one = _filled(item, len(made))
        if len(made) % 1000 == 0:
            cost = len(convert.to_fast(one).SerializeToString()) + 6
        made.append(one)
        size += cost
    return tuple(made)


def _filled(kind: type[Any], number: int, **said: object) -> Any:
    """Return a record with what it needs, and a state where it has one, under a name of its own."""
    fields: dict[str, object] = {}
    for one in msgspec.structs.fields(kind):
        if one.required:
            fields[one.name] = f"{one.name}{number}" if one.type is str else number + 1
    if kind.__name__ in _STATES:
        fields["state"] = _STATES[kind.__name__]
    return kind(**{**fields, **said})


async def measure() -> dict[str, dict[str, float]]:
    """Return, by list, the milliseconds of reading it and of the loop's longest pause after that.

    It is handled twice: what comes first, and what is as it was.
    """
    return {name: await _measured(message) for name, message in messages()}


async def _measured(message: AgentMessage) -> dict[str, float]:
    plane = make_plane(FakeClock())
    await plane.open()
    data = convert.to_fast(message).SerializeToString()
    began = time.perf_counter()
    record = codec.decode(data, AgentMessage)
    read = time.perf_counter() - began
    agent = _Agent(NODE, devices=8)
    await agent.connect(plane.agents)
    pauses = [await _pause(agent, plane.agents, record) for _ in range(2)]
    looked = time.perf_counter()
    plane.fleet.observed()
    looked = time.perf_counter() - looked
    await agent.leave()
    seconds = {"read": read, "first": pauses[0], "again": pauses[1], "observed": looked}
    shown = {f"{what}_ms": 1000 * value for what, value in seconds.items()}
    return {"mib": len(data) / (1 << 20), **shown}


class _Agent(FakeAgent):
    said: Register | None = None

    def register(self) -> Register:
        return super().register() if self.said is None else self.said

    async def leave(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)


async def _pause(agent: _Agent, agents: Agents, record: AgentMessage) -> float:
    """Let a message be handled; return the longest time for which nothing else had a turn."""
    if record.register is not None:
        await agent.leave()
        agent.said = msgspec.structs.replace(record.register, node=NODE)
        ending: asyncio.Future[Any] = asyncio.ensure_future(agent.connect(agents))
    else:
        agent.say(**{name: getattr(record, name) for name in record.__struct_fields__})
        ending = asyncio.ensure_future(settle())
    longest, last = 0.0, time.perf_counter()
    while not ending.done():
        await asyncio.sleep(0)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    await ending
    return longest


def main() -> int:
    """Print the figures."""
    flags = argparse.ArgumentParser(description="what messages at the link's limit cost")
    flags.add_argument("--json", action="store_true", help="print one JSON object")
    as_json = flags.parse_args().json
    log.setup("bench", out=io.StringIO())
    figures = asyncio.run(measure())
    if as_json:
        sys.stdout.write(json.dumps(figures) + "\n")
        return 0
    for name, found in figures.items():
        told = "  ".join(f"{what} {value:7.1f}" for what, value in found.items())
        sys.stdout.write(f"{name:28} {told}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
