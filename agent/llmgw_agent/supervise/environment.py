"""The environment that an engine gets: what is listed here, and nothing that is inherited."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from llmgw.base.ids import shard_id
from llmgw.model.shard import ShardSpec

SHARD = "LLMGW_SHARD"
STATE = "LLMGW_STATE"

_PASSED_ON = ("PATH", "HOME", "LANG")
_RANK = re.compile(r"[0-9]{1,4}")


def engine_environment(
    base: Mapping[str, str],
    *,
    libraries: Sequence[Path],
    devices: Sequence[str],
    shard: str,
    state: str,
    own: Mapping[str, str],
) -> dict[str, str]:
    """Return an engine's whole environment.

    Args:
        base: the agent's own environment, of which little is passed on.
        libraries: directories that the program's loader needs.
        devices: UUIDs; none hides every card.
        shard: `<cluster>/<node>/<replica>/<rank>`.
        state: this agent's state directory, by which it knows its own processes again.
        own: what the engine needs beyond that: its key, its device variable.
    """
    environment = {name: base[name] for name in _PASSED_ON if name in base}
    if libraries:
        environment["LD_LIBRARY_PATH"] = ":".join(str(path) for path in libraries)
    environment["CUDA_VISIBLE_DEVICES"] = ",".join(devices)
    return {**environment, **own, SHARD: shard, STATE: state}


def network_environment(spec: ShardSpec) -> dict[str, str]:
    """Return how a shard reaches the other shards of its replica, as NCCL is told it.

    Within one NVLink domain over NVLink across machines; else by the ports of the network that all
    of them share, and no other: a port of the storage network would be taken too. The sign `=`
    before the names asks for these names, and not for all that begin like them.
    """
    found: dict[str, str] = {}
    if spec.nvlink_domain is not None:
        found["NCCL_MNNVL_ENABLE"] = "1"
    if spec.network_ports:
        names = (port.replace("/", ":") for port in spec.network_ports)
        found["NCCL_IB_HCA"] = f"={','.join(names)}"
    return found


def shard_name(cluster: str, node: str, replica: str, rank: int) -> str:
    """Return what LLMGW_SHARD says."""
    return f"{cluster}/{node}/{shard_id(replica, rank)}"


def shard_of(environ: Mapping[str, str]) -> tuple[str, int] | None:
    """Return replica and rank that an engine's environment names; None when it names none."""
    parts = environ.get(SHARD, "").rsplit("/", 2)
    if len(parts) < 3 or not parts[1] or not _RANK.fullmatch(parts[2]):
        return None
    return parts[1], int(parts[2])
