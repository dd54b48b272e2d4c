"""The cluster in one look."""

from collections import Counter
from collections.abc import Iterator

from llmgw.base.periodic import Periodic
from llmgw.base.units import show_seconds
from llmgw.control.api.operation import PREFIX, Call, Operation
from llmgw.control.api.replicas import notes, seen
from llmgw.control.api.shapes import ModelStatus, PassShown, Status, Trouble
from llmgw.control.plane import Plane
from llmgw.fabric.managers import masters as masters_seen
from llmgw.fabric.managers import masters_of
from llmgw.model.availability import availability, given_out, holders
from llmgw.model.gateway import Route
from llmgw.model.keys import READ
from llmgw.model.node import LOST, READY, UNREACHABLE
from llmgw.model.trouble import MASS_LOSS, troubles
from llmgw.plan.words import some


async def status(call: Call) -> Status:
    """Return what is asked first: does it serve, what is missing, what is sick."""
    plane = call.plane
    return Status(
        cluster=plane.cluster,
        server=plane.server_id,
        version=plane.version,
        leader=plane.leader,
        term=plane.term,
        epoch=plane.epoch,
        started=plane.started,
        now=plane.clock.now(),
        stopped=plane.settings.current.settings.serving.stopped,
        nodes=_counted([node.liveness for node in plane.fleet.nodes()]),
        devices=_devices(plane),
        replicas=_counted([one.away or one.state for one in seen(plane)]),
        models=tuple(_models(plane)),
        gateways=tuple(sorted(plane.gateways.all(), key=lambda gateway: gateway.id)),
        static_endpoints=_static(plane),
        problems=tuple(_problems(plane)),
        sentence=plane.last_plan.sentence if plane.last_plan else None,
        passes=tuple(_pass(one) for one in plane.passes.values()),
    )


def _devices(plane: Plane) -> dict[str, dict[str, int]]:
    found: dict[str, list[str | None]] = {}
    replicas = plane.fleet.replicas()
    for node in plane.fleet.nodes():
        sample = plane.fleet.sample(node.id)
        beat = sample.heartbeat.devices if sample is not None else None
        readings = {one.uuid: one for one in beat or ()}
        held = holders(node, replicas)
        for device in given_out(node.inventory.devices or ()):
            is_held = device.uuid in held
            verdict = availability(device, node, readings.get(device.uuid), held=is_held)
            found.setdefault(device.device_class or device.name or "unknown", []).append(verdict)
    return {name: _counted(found[name]) for name in sorted(found)}


def _static(plane: Plane) -> dict[str, int]:
    written = plane.settings.current.settings.publishing.endpoints
    return {model: len(endpoints) for model, endpoints in sorted(written.items())}


def ready(route: Route | None) -> int:
    """Return how many replicas requests go to now, those that are the last resort aside."""
    return 0 if route is None else sum(not one.last_resort for one in route.endpoints)


def _counted(words: list[str | None]) -> dict[str, int]:
    return dict(sorted(Counter(word or "unknown" for word in words).items()))


def _models(plane: Plane) -> Iterator[ModelStatus]:
    told = notes(plane)
    for route in plane.fleet.routes():
        yield ModelStatus(
            name=route.model,
            wanted=route.wanted,
            ready=ready(route),
            reason=route.reason,
            note=told.get(route.model),
        )


def _problems(plane: Plane) -> Iterator[Trouble]:
    """Yield what a person should look at: all that a critical alert tells is among it."""
    now = plane.clock.now()
    if not plane.leader:
        yield Trouble(subject=plane.server_id, words=plane.elsewhere().message)
    unwritten = tuple(_unwritten(plane))
    yield from unwritten
    yield from _away(plane)
    for node in plane.fleet.nodes():
        sample = plane.fleet.sample(node.id)
        beat = sample.heartbeat if sample is not None else None
        for words in troubles(node, beat, now=now, ages=show_seconds):
            yield Trouble(subject=node.id, words=words)
    yield from _fabrics(plane)
    for refusal in plane.last_plan.refusals if plane.last_plan else ():
        yield Trouble(subject=refusal.model, words=refusal.words)
    for gateway in plane.gateways.all():
        if not gateway.connected:
            yield Trouble(subject=gateway.id, words="the gateway is not connected")
    for one in plane.passes.values():
        error = None if one.last is None else one.last.error
        if error is not None and not any(error in known.words for known in unwritten):
            yield Trouble(subject=one.name, words=error)


def _unwritten(plane: Plane) -> Iterator[Trouble]:
    now = plane.clock.monotonic()
    for one in plane.writing.unwritten():
        what = f"{', '.join(one.kinds)} can't be written for {show_seconds(now - one.since)}"
        yield Trouble(subject="store", words=f"{what}: {one.words}")


def _away(plane: Plane) -> Iterator[Trouble]:
    """Yield the nodes that are away; those that were lost together as one."""
    lost = plane.fleet.losses.now
    if lost is not None:
        words = f"{lost.words}; if they are gone: llmgw ctl node accept-loss"
        yield Trouble(subject=MASS_LOSS, words=words)
    has: dict[str, list[str]] = {}
    for one in plane.fleet.replicas():
        for name in dict.fromkeys(shard.node for shard in one.shards):
            has.setdefault(name, []).append(one.id)
    for node in plane.fleet.nodes():
        if node.liveness in {UNREACHABLE, LOST} and not plane.fleet.losses.concerns(node.id):
            there = f"; it has {some(has[node.id])}" if node.id in has else ""
            yield Trouble(subject=node.id, words=f"the node is {node.liveness}{there}")


def _fabrics(plane: Plane) -> Iterator[Trouble]:
    """Yield fabrics with several masters, each once whoever sees it, and that there is none."""
    found = [node for node in plane.fleet.nodes() if node.liveness == READY]
    masters = [masters_of(node.inventory.subnet_managers or ()) for node in found]
    for fabric in sorted({name for one in masters for name in one}):
        guids = sorted(set().union(*(one.get(fabric, set()) for one in masters)))
        if len(guids) > 1:
            words = f"several subnet managers are master: {', '.join(guids)}"
            yield Trouble(subject=f"fabric {fabric}", words=words)
    blind = [node.id for node in found if plane.hardware.masterless(node.id)]
    if blind and not any(masters_seen(node.inventory.ports or ()) for node in found):
        words = "no node sees a master subnet manager any more"
        yield Trouble(subject="InfiniBand", words=words)


def _pass(one: Periodic) -> PassShown:
    last = one.last
    return PassShown(
        name=one.name,
        at=last.at if last else None,
        sentence=last.sentence if last else None,
        error=last.error if last else None,
    )


OPERATIONS = (Operation("GET", f"{PREFIX}/status", READ, status, "The cluster in one look."),)
