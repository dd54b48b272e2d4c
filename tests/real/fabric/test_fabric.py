"""The probes of ports and subnet managers: real tools, real managers, simulated fabrics."""

import asyncio
from collections.abc import Callable

from llmgw.model.fabric import Port, SubnetManager
from tests.real.fabric.conftest import (
    FIRST,
    GUIDS_A,
    GUIDS_B,
    NODE,
    SECOND,
    NodeOnFabrics,
    Probes,
    Rails,
)
from tests.real.fabric.simulation import guid

LIMIT = 25.0
"""Seconds; it takes two. A message that the simulation loses costs a tool's whole time-out."""


async def look_until(node: NodeOnFabrics, condition: Callable[[], bool]) -> None:
    """Look again and again until something is so: managers learn of each other by sweeps."""
    said = ""
    try:
        async with asyncio.timeout(LIMIT):
            while not condition():
                said = await node.look()
    except TimeoutError:
        raise AssertionError(f"{said}: {node.has()}") from None


def managers(node: NodeOnFabrics) -> set[tuple[str | None, str, int | None]]:
    """Return port seen through, state and priority of each manager."""
    found = node.has().subnet_managers or ()
    return {(manager.adapter, manager.state or "", manager.priority) for manager in found}


async def test_each_port_sees_its_own_master_and_each_fabric_all_its_managers(
    rails: Rails, probes: Probes
):
    rails.a.start_manager(FIRST, 8)
    rails.a.start_manager(SECOND, 3)
    rails.b.start_manager(SECOND, 5)
    async with probes() as node:
        pair = {("mlx5_0/1", "master", 8), ("mlx5_0/1", "standby", 3)}
        await look_until(node, lambda: managers(node) == {*pair, ("mlx5_1/1", "master", 5)})
        masters = {name: port.master_guid for name, port in node.told().items()}
        assert masters == {"mlx5_0": guid(GUIDS_A, 1), "mlx5_1": guid(GUIDS_B, 2)}
        found = node.has().subnet_managers or ()
        assert {manager.guid: manager.master_guid for manager in found} == {
            guid(GUIDS_A, 1): guid(GUIDS_A, 1),
            guid(GUIDS_A, 2): guid(GUIDS_A, 1),
            guid(GUIDS_B, 2): guid(GUIDS_B, 2),
        }


async def test_when_the_master_dies_the_standby_becomes_the_ports_master(
    rails: Rails, probes: Probes
):
    rails.a.start_manager(FIRST, 8)
    rails.a.start_manager(SECOND, 3)
    async with probes() as node:
        await look_until(node, lambda: ("mlx5_0/1", "standby", 3) in managers(node))
        assert node.told()["mlx5_0"].master_guid == guid(GUIDS_A, 1)
        rails.a.kill_manager(FIRST)
        await look_until(node, lambda: node.told()["mlx5_0"].master_guid == guid(GUIDS_A, 2))
        (manager,) = node.has().subnet_managers or ()
        assert manager.lid is not None
        assert manager == SubnetManager(
            guid=guid(GUIDS_A, 2),
            lid=manager.lid,
            priority=3,
            state="master",
            adapter="mlx5_0/1",
            master_guid=guid(GUIDS_A, 2),
        )


async def test_a_fabric_whose_only_manager_died_has_none(rails: Rails, probes: Probes):
    rails.a.start_manager(FIRST, 8)
    async with probes() as node:
        await node.look()
        assert node.told()["mlx5_0"].master_guid == guid(GUIDS_A, 1)
        rails.a.kill_manager(FIRST)
        assert await node.look() == "no subnet manager answers mlx5_0/1"
        assert node.told()["mlx5_0"].master_guid is None
        assert node.has().subnet_managers == ()


async def test_ports_that_no_manager_ever_configured_are_not_asked(probes: Probes):
    async with probes() as node:
        assert await node.look() == "no active InfiniBand port"
        assert [(port.state, port.lid) for port in node.told().values()] == [("INIT", None)] * 2


async def test_sysfs_and_ibstat_tell_the_same_of_a_port(rails: Rails, probes: Probes):
    rails.a.start_manager(FIRST, 8)
    async with probes() as node:
        await node.ports.read()
        seen = node.told()["mlx5_0"]
    async with probes(sysfs=False) as node:
        assert await node.ports.read() == "1 port, all active, told by ibstat"
        told = node.told()["ibsim0"]
    assert seen.lid is not None
    # The simulated sysfs has no link_layer and no counters; ibstat takes the first for InfiniBand.
    assert told == Port(
        adapter="ibsim0",
        number=1,
        link_layer="InfiniBand",
        state="ACTIVE",
        physical_state="LinkUp",
        rate=10_000_000_000,
        lid=seen.lid,
        node_guid=f"0x{GUIDS_A:016x}",
        port_guid=guid(GUIDS_A, 0),
    )
    assert (seen.state, seen.physical_state, seen.rate) == ("ACTIVE", "LinkUp", 10_000_000_000)
    assert (seen.node_guid, seen.port_guid) == (told.node_guid, told.port_guid)


async def test_a_cable_that_is_pulled_takes_port_and_master_away(rails: Rails, probes: Probes):
    rails.a.start_manager(FIRST, 8)
    rails.b.start_manager(FIRST, 8)
    async with probes() as node:
        await node.look()
        assert None not in {port.master_guid for port in node.told().values()}
    rails.b.cut(NODE)
    async with probes() as node:
        await node.look()
        told = node.told()
        assert (told["mlx5_0"].state, told["mlx5_1"].state) == ("ACTIVE", "DOWN")
        assert (told["mlx5_1"].rate, told["mlx5_1"].master_guid) == (None, None)
        assert told["mlx5_0"].master_guid == guid(GUIDS_A, 1)
