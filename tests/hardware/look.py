"""What this agent's own probes see here, and whether both ways to the cards see the same."""

import asyncio
import os
import re
from collections.abc import Iterator
from pathlib import Path

from llmgw.base.clock import SystemClock
from llmgw.base.errors import LlmgwError, NotFound
from llmgw.base.places import Places
from llmgw.base.system import SystemProcesses
from llmgw.model.device import Device
from llmgw.model.node import ProbeState
from llmgw_agent.config import AgentConfig
from llmgw_agent.host.world import helpers
from llmgw_agent.look import Look, as_json, look
from llmgw_agent.main import directories_of
from llmgw_agent.parse.card_devices import devices
from llmgw_agent.parse.cards import CardsSeen
from llmgw_agent.probe.card_reader import SmiCards
from llmgw_agent.probe.card_request import CARDS, LINKS, ReadCards
from llmgw_agent.probe.smi import NvidiaSmi

OK, ABSENT, FAILED = "ok", "not here", "FAILED"
_CARDS = "gpus"
NVML = "llmgw_agent.probe.nvml_side"

_NOTHING = re.compile(
    r"^(?:no (?!subnet manager answers)|not |nothing )|is not (?:on this machine|installed)"
    r"|can't be read, and there are no "
)

Line = tuple[str, str, str]


def verdicts(place: Path) -> Iterator[Line]:
    """Yield name, state and words of each probe, then of what both ways to the cards disagree on.

    What an agent would report is kept as `look.json`.
    """
    seen = asyncio.run(_look())
    (place / "look.json").write_bytes(as_json(seen))
    for probe in seen.heartbeat.probes or ():
        yield f"probe {probe.name}", *_of_probe(probe, seen)
    yield asyncio.run(_both_ways())


def _of_probe(probe: ProbeState, seen: Look) -> tuple[str, str]:
    sentence = seen.said.get(probe.name, "")
    if probe.error is not None:
        return FAILED, probe.error
    if probe.name == _CARDS and not seen.inventory.devices:
        # None are listed, and there is a reason beside that there are none.
        words = [one.words for one in seen.inventory.warnings or () if one.subject == "gpu"]
        if words:
            return FAILED, "; ".join(words)
    return ABSENT if nothing_there(sentence) else OK, sentence


def nothing_there(sentence: str) -> bool:
    """Say whether a probe says that what it reads is not on this machine."""
    return _NOTHING.search(sentence) is not None


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
    warnings = {seen[CARDS].warning for seen in ways} - {None}
    if warnings:
        return name, FAILED, "; ".join(map(str, sorted(map(str, warnings))))
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
