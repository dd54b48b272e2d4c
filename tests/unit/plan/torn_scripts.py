"""Planner scripts about replicas of several nodes of which one is lost or removed (REC-10)."""

import msgspec

from llmgw.model.catalog import REPLACE, Disconnect
from llmgw.model.fabric import Port
from llmgw.model.shard import FAILED
from tests.unit.plan.fleet import Fleet, model, node

PORT = Port(adapter="mlx5_0", number=1, state="4: ACTIVE", master_guid="0xa", rate=400 * 10**9)


def _fleet(nodes: int, disconnect: Disconnect | None = None) -> Fleet:
    """Return a fleet of one card a node that serves `huge` on the first two."""
    fleet = Fleet()
    names = [f"gpu-0{number}" for number in range(1, nodes + 1)]
    fleet.join(*(node(name, devices=1, inventory={"ports": (PORT,)}) for name in names))
    fleet.serve(model("huge", gpus=1, nodes=2, disconnect=disconnect or Disconnect()))
    fleet.turn()
    fleet.all_ready()
    return fleet


def _ends_on(fleet: Fleet, replica: str, name: str) -> None:
    """Let one shard of a replica end as it was told; what is left of it stays given up."""
    known = fleet.replicas[replica]
    left = tuple(shard for shard in known.shards if shard.node != name)
    fleet.say(f"the shard of {replica} on {name} is stopped")
    if left:
        fleet.replicas[replica] = msgspec.structs.replace(known, shards=left)
    else:
        del fleet.replicas[replica]
        del fleet.drains[replica]
    fleet.told_to_stop.discard(replica)  # it is told anew where that is of use


def _remove(fleet: Fleet, name: str) -> None:
    """Remove a node: what is left of its replicas has failed."""
    del fleet.nodes[name]
    fleet.say(f"{name} is removed")
    for replica in tuple(fleet.replicas.values()):
        left = tuple(shard for shard in replica.shards if shard.node != name)
        if len(left) < len(replica.shards):
            words = f"shard 0 of 2 is missing: {name} is not in the cluster any more"
            fleet.replicas[replica.id] = msgspec.structs.replace(
                replica, state=FAILED, reason=words, shards=left
            )


def torn_and_waited_for() -> Fleet:
    fleet = _fleet(4)
    fleet.change("gpu-01", liveness="lost")
    fleet.turn()
    fleet.wait(86_400)
    fleet.turn()
    fleet.say("what is left of it is stopped as soon as nobody wants it")
    fleet.stop_cluster()
    fleet.turn()
    fleet.wait(2)
    fleet.turn()
    _ends_on(fleet, "huge-000001", "gpu-02")
    fleet.turn()
    fleet.say("its node is back")
    fleet.change("gpu-01", liveness="ready")
    fleet.turn()
    _ends_on(fleet, "huge-000001", "gpu-01")
    fleet.turn()
    return fleet


def torn_and_replaced() -> Fleet:
    fleet = _fleet(4, Disconnect(policy=REPLACE, after=60))
    fleet.change("gpu-01", liveness="lost")
    fleet.wait(59)
    fleet.turn()
    fleet.wait(1)
    fleet.turn()
    fleet.all_ready()
    fleet.wait(2)
    fleet.turn()
    _ends_on(fleet, "huge-000001", "gpu-02")
    fleet.say("what it had there is free")
    fleet.serve(model("small", gpus=1))
    fleet.turn()
    fleet.all_ready()
    fleet.turn()
    fleet.say("the lost node comes back, with its shard")
    fleet.change("gpu-01", liveness="ready")
    fleet.turn()
    _ends_on(fleet, "huge-000001", "gpu-01")
    fleet.turn()
    return fleet


def torn_and_replaced_where_only_its_own_place_is_left() -> Fleet:
    fleet = _fleet(3, Disconnect(policy=REPLACE, after=0))
    fleet.change("gpu-01", liveness="lost")
    fleet.turn()
    fleet.busy("huge-000001", 1)
    fleet.wait(30)
    fleet.turn()
    fleet.busy("huge-000001", 0)
    fleet.turn()
    _ends_on(fleet, "huge-000001", "gpu-02")
    fleet.turn()
    return fleet


def torn_by_the_removal_of_a_node() -> Fleet:
    fleet = _fleet(4)
    _remove(fleet, "gpu-01")
    fleet.turn()
    fleet.all_ready()
    fleet.turn()
    return fleet


def torn_in_a_mass_loss() -> Fleet:
    fleet = _fleet(5, Disconnect(policy=REPLACE, after=0))
    for name in ("gpu-01", "gpu-03", "gpu-04"):
        fleet.change(name, liveness="lost")
    fleet.turn()
    fleet.wait(600)
    fleet.turn()
    return fleet


SCRIPTS = (
    torn_and_waited_for,
    torn_and_replaced,
    torn_and_replaced_where_only_its_own_place_is_left,
    torn_by_the_removal_of_a_node,
    torn_in_a_mass_loss,
)
