"""From a placement to the start of a replica: everything that its nodes need to be told."""

import zlib

import msgspec

from llmgw.model.shard import Rendezvous, ShardSpec
from llmgw.plan.placement.place import Placement, Seat
from llmgw.plan.placement.request import Request
from llmgw.plan.records import Assignment, StartReplica

_RENDEZVOUS_FIRST = 29500
_RENDEZVOUS_PORTS = 500


def start(
    replica: str, request: Request, fingerprint: str, placement: Placement, words: str
) -> StartReplica:
    """Return the start of a replica at a placement."""
    meeting = _rendezvous(replica, placement)
    return StartReplica(
        replica=replica,
        model=request.model.name,
        profile=request.profile.name,
        shards=tuple(
            Assignment(
                node=seat.node,
                spec=msgspec.structs.replace(
                    _spec(replica, rank, request, fingerprint, seat, meeting),
                    nvlink_domain=placement.nvlink_domain,
                ),
                device_memory_bytes=request.device_memory_bytes,
            )
            for rank, seat in enumerate(placement.seats)
        ),
        words=words if placement.network is None else f"{words}; joined by {placement.network}",
    )


def _spec(
    replica: str,
    rank: int,
    request: Request,
    fingerprint: str,
    seat: Seat,
    rendezvous: Rendezvous | None,
) -> ShardSpec:
    model, profile = request.model, request.profile
    return ShardSpec(
        replica=replica,
        rank=rank,
        model=model.name,
        profile=profile.name,
        fingerprint=fingerprint,
        engine=profile.engine,
        engine_version=profile.engine_version,
        source=model.source,
        devices=seat.devices,
        memory_bytes=request.reserved_bytes,
        cpu_cores=profile.cpu_cores,
        context=profile.context,
        concurrency=profile.concurrency,
        tensor_parallel=profile.tensor_parallel,
        pipeline_parallel=profile.pipeline_parallel,
        arguments=profile.arguments,
        ready_timeout=profile.ready_timeout,
        adapters=model.adapters,
        allow_pickle=model.allow_pickle,
        kv_events=profile.kv_events,
        rendezvous=rendezvous,
        network_ports=seat.ports,
        disk_bytes=request.disk_bytes,
    )


def _rendezvous(replica: str, placement: Placement) -> Rendezvous | None:
    """Return where the shards meet: at rank 0, at a port that follows from the replica's id."""
    first = placement.seats[0]
    if len(placement.seats) == 1 or first.address is None:
        return None
    port = _RENDEZVOUS_FIRST + zlib.crc32(replica.encode()) % _RENDEZVOUS_PORTS
    return Rendezvous(
        address=first.address,
        port=port,
        world=len(placement.seats),
        nodes=tuple(seat.node for seat in placement.seats),
    )
