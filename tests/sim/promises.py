"""What people were told is done, and what a node says it holds whole."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from tests.sim.simulation import Simulation

LEAD_LOADS = 5.0
"""Seconds after which whoever leads knows everything that was acknowledged before."""


def forgotten(sim: "Simulation") -> Iterator[str]:
    """Yield what was acknowledged and is not in the store any more."""
    operator, memory = sim.operator, sim.memory
    if memory.settings.newest().version < operator.settings_version:
        yield f"version {operator.settings_version} of the settings was acknowledged and is lost"
    models = {entry.model.name: entry for entry in memory.catalog.entries()}
    for name, version in operator.versions.items():
        entry = models.get(name)
        if entry is None or entry.version < version:
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
        for name in os.listdir(node.weights):  # noqa: PTH208 -- each ten seconds of each node
            try:
                marker = (node.weights / name / "llmgw.json").read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                continue
            for file in msgspec.json.decode(marker)["files"]:
                if (node.weights / name / file["name"]).read_bytes() not in sim.whole_weights:
                    yield f"{node.name}: {file['name']} counts as whole and is not"
