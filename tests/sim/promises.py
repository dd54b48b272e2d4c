"""What people were told is done, and what a node says it holds whole."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from tests.sim.simulation import Simulation

WEIGHTS_MOST = 1 << 20
"""Bytes that are read of a file: more than any of the simulator's has."""

LEAD_LOADS = 5.0
"""Seconds after which whoever leads knows everything that was acknowledged before."""


def forgotten(sim: "Simulation") -> Iterator[str]:
    """Yield what was acknowledged and is not in the store any more."""
    operator, memory = sim.operator, sim.memory
    if memory.settings.newest().version < operator.settings_version:
        yield f"version {operator.settings_version} of the settings was acknowledged and is lost"
    for name, version in operator.versions.items():
        kept = memory.catalog.version(name)
        if kept is None or kept < version:
            yield f"version {version} of model {name} was acknowledged and is lost"


def unknown_to_the_leader(sim: "Simulation") -> Iterator[str]:
    """Yield what was acknowledged and whoever leads does not know."""
    operator, plane = sim.operator, sim.leader()
    since = plane.leadership._since if plane is not None else None
    if plane is None or since is None or sim.loop.time() - since < LEAD_LOADS:
        return
    for name, version in operator.versions.items():
        known = plane.catalog.get(name)
        if known is None or known.version < version:
            yield f"{plane.server_id} leads and does not know version {version} of {name}"
    if plane.settings.current.version < operator.settings_version:
        yield f"{plane.server_id} leads and does not know the newest settings"
    for node, wish in operator.wishes.items():
        seen = plane.fleet._nodes.get(node)
        if seen is not None and seen.wish != wish:
            yield f"{plane.server_id} forgot that {node} is {wish or 'released'}"


def broken_weights(sim: "Simulation") -> Iterator[str]:
    """Yield the sets of weights that count as whole and are not."""
    for node in sim.nodes:
        weights = str(node.weights)
        for name in os.listdir(weights):  # noqa: PTH208 -- each ten seconds of each node
            marker = _bytes_of(f"{weights}/{name}/llmgw.json")
            for file in msgspec.json.decode(marker)["files"] if marker is not None else ():
                if _bytes_of(f"{weights}/{name}/{file['name']}") not in sim.whole_weights:
                    yield f"{node.name}: {file['name']} counts as whole and is not"


def _bytes_of(path: str) -> bytes | None:
    try:
        file = os.open(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return os.read(file, WEIGHTS_MOST)
    finally:
        os.close(file)
