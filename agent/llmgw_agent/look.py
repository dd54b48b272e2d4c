"""`llmgw agent --look`: what this machine's agent would report, without being one."""

import asyncio
import io
import os
import sys
from collections.abc import Coroutine, Mapping
from pathlib import Path

import msgspec

from llmgw.base.errors import EXIT_OK
from llmgw.base.log import setup
from llmgw.base.places import Places
from llmgw.model.node import Heartbeat, Inventory
from llmgw.model.record import Record
from llmgw_agent.config import AgentConfig, check_config
from llmgw_agent.host.world import this_world
from llmgw_agent.main import directories_of
from llmgw_agent.sources import Around, Directories, Groups, sources

LONGEST = 20.0
"""Seconds for all sources; one that has not answered by then says so in `probes`."""
BETWEEN = 1.0
"""Seconds between two looks: a share of time needs two."""


_AGES = ("age", "failing")


class Look(Record, frozen=True, kw_only=True):
    """What an agent would tell: once when it registers, and in its heartbeats."""

    inventory: Inventory
    heartbeat: Heartbeat
    said: dict[str, str]
    """What each probe says of its last reading; one that failed says why in the heartbeat."""


def run(config: AgentConfig) -> int:
    """Print what an agent of this machine would report, as JSON; return the exit code.

    It joins nothing, sends nothing, makes no directory, and runs beside an agent. What engines of
    that agent hold counts as foreign here.
    """
    quiet()
    check_config(config)
    environ = dict(os.environ)
    state = None if config.state_dir is None else Path(config.state_dir).absolute()
    places = Places.find("agent", environ=environ, root=os.geteuid() == 0, state=state)
    seen = asyncio.run(look(config, directories_of(config, places), environ))
    sys.stdout.buffer.write(as_json(seen) + b"\n")
    return EXIT_OK


def quiet() -> None:
    """Let nothing be logged: what a probe could not read is in what is printed."""
    setup("agent", level="warning", out=io.StringIO())


def as_json(seen: Look) -> bytes:
    """Return a look for people: ages in tenths of a second."""
    return msgspec.json.format(msgspec.json.encode(_rounded(msgspec.to_builtins(seen))), indent=2)


def _rounded(told: object, name: str = "") -> object:
    if isinstance(told, dict):
        return {key: _rounded(value, key) for key, value in told.items()}
    if isinstance(told, list | tuple):
        return [_rounded(one) for one in told]
    return round(told, 1) if name in _AGES and isinstance(told, float) else told


async def look(
    config: AgentConfig,
    directories: Directories,
    environ: Mapping[str, str],
    *,
    longest: float = LONGEST,
) -> Look:
    """Ask every source and return what they know; each answers within so many seconds or not."""
    world = this_world(environ)
    clock = world.clock
    found = sources(
        Around(
            config=config,
            directories=directories,
            world=world,
            groups=Groups(),
            settings=lambda: None,
            writes=False,
        )
    )
    facts = found.facts()
    try:
        await _within(longest, facts.look(late=True))
        # As an agent does it: some sources learn of the cards from the inventory.
        facts.inventory()
        await clock.sleep(BETWEEN)
        await _within(BETWEEN, facts.look(late=False))
        inventory = facts.inventory()
        heartbeat = facts.heartbeat(1, clock.now())
        silent = facts.unanswered()
        states = tuple(
            msgspec.structs.replace(state, error=f"no answer within {longest:g} s")
            if state.name in silent
            else state
            for state in heartbeat.probes or ()
        )
        return Look(
            inventory=inventory,
            heartbeat=msgspec.structs.replace(heartbeat, probes=states),
            said=facts.sentences(),
        )
    finally:
        await facts.close()
        await world.http.close()


async def _within(seconds: float, looking: Coroutine[object, object, None]) -> None:
    task = asyncio.ensure_future(looking)
    await asyncio.wait({task}, timeout=seconds)
    task.cancel()
    await asyncio.wait({task}, timeout=seconds)
