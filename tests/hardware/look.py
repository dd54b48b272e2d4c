"""What this agent's own probes see here, and whether both ways to the cards see the same."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from llmgw.base.clock import SystemClock
from llmgw.base.errors import LlmgwError, NotFound
from llmgw.base.log import setup
from llmgw.base.places import Places
from llmgw.base.system import SystemProcesses
from llmgw.model.device import Device
from llmgw_agent.config import AgentConfig
from llmgw_agent.look import Look, look
from llmgw_agent.main import directories_of
from llmgw_agent.parse.card_devices import devices
from llmgw_agent.parse.cards import CardsSeen
from llmgw_agent.probe.card_reader import SmiCards
from llmgw_agent.probe.card_request import CARDS, LINKS, ReadCards
from llmgw_agent.probe.smi import NvidiaSmi
from llmgw_agent.sources import helpers

OK, ABSENT, FAILED = "ok", "not here", "FAILED"
NVML = "llmgw_agent.probe.nvml_side"

Line = tuple[str, str, str]


def verdicts(place: Path) -> Iterator[Line]:
    """Yield name, state and words of each probe, then of what both ways to the cards disagree on.

    What an agent would report is kept as `look.json`.
    """
    setup("agent", level="warning")
    seen = asyncio.run(_look())
    (place / "look.json").write_bytes(msgspec.json.format(msgspec.json.encode(seen), indent=2))
    for probe in seen.heartbeat.probes or ():
        state = OK if probe.error is None else FAILED
        yield f"probe {probe.name}", state, probe.error or "it gave a reading"
    yield asyncio.run(_both_ways())


async def _look() -> Look:
    environ = dict(os.environ)
    config = AgentConfig()
    places = Places.find("agent", environ=environ, root=os.geteuid() == 0)
    return await look(config, directories_of(config, places), environ)


async def _both_ways() -> Line:
    name = "NVML and nvidia-smi agree"
    helper = helpers(NVML, os.environ)()
    tool = SmiCards(NvidiaSmi(SystemProcesses(), SystemClock()))
    try:
        ways = [
            {
                part: await helper.ask(ReadCards(part=part), CardsSeen, silence=30.0)
                for part in (CARDS, LINKS)
            },
            {part: await tool.read(part) for part in (CARDS, LINKS)},
        ]
    except NotFound as error:
        return name, ABSENT, error.message
    except LlmgwError as error:
        return name, FAILED, error.message
    finally:
        await helper.close()
    library, program = (devices(seen[CARDS].cards) for seen in ways)
    wrong = list(differences(library, program))
    drivers = [seen[CARDS].driver for seen in ways]
    if drivers[0] != drivers[1]:
        wrong.append(f"driver {drivers[0]} and {drivers[1]}")
    if not library:
        return name, ABSENT, "no cards"
    return name, FAILED if wrong else OK, "; ".join(wrong) or f"{len(library)} devices"


def differences(one: tuple[Device, ...], other: tuple[Device, ...]) -> Iterator[str]:
    """Yield in words every field in which two readings of the same machine differ."""
    by_uuid = {device.uuid: device for device in other}
    for device in one:
        same = by_uuid.pop(device.uuid, None)
        if same is None:
            yield f"{device.uuid} is seen through NVML alone"
            continue
        for field in Device.__struct_fields__:
            mine, its = getattr(device, field), getattr(same, field)
            # What one way does not tell is left out, not wrong.
            if None not in (mine, its) and mine != its:
                yield f"{device.uuid} {field}: {mine!r} and {its!r}"
    for uuid in by_uuid:
        yield f"{uuid} is seen through nvidia-smi alone"
