"""The cluster in one look."""

from collections import Counter
from collections.abc import Iterator

from llmgw.base.periodic import Periodic
from llmgw.control.api.operation import PREFIX, Call, Operation
from llmgw.control.api.shapes import ModelStatus, PassShown, Status, Trouble
from llmgw.control.plane import Plane
from llmgw.model.gateway import Route
from llmgw.model.keys import READ
from llmgw.model.node import LOST, UNREACHABLE


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
        replicas=_counted([replica.state for replica in plane.fleet.replicas()]),
        models=tuple(_model(route) for route in plane.fleet.routes()),
        gateways=tuple(sorted(plane.gateways.all(), key=lambda gateway: gateway.id)),
        problems=tuple(_problems(plane)),
        sentence=plane.last_plan.sentence if plane.last_plan else None,
        passes=tuple(_pass(one) for one in plane.passes.values()),
    )


def ready(route: Route | None) -> int:
    """Return how many replicas requests go to now."""
    return 0 if route is None else len(route.endpoints)


def _counted(words: list[str | None]) -> dict[str, int]:
    return dict(sorted(Counter(word or "unknown" for word in words).items()))


def _model(route: Route) -> ModelStatus:
    return ModelStatus(
        name=route.model, wanted=route.wanted, ready=ready(route), reason=route.reason
    )


def _problems(plane: Plane) -> Iterator[Trouble]:
    for node in plane.fleet.nodes():
        if node.liveness in {UNREACHABLE, LOST}:
            yield Trouble(subject=node.id, words=f"the node is {node.liveness}")
        yield from (Trouble(subject=node.id, words=words) for words in node.health)
    for refusal in plane.last_plan.refusals if plane.last_plan else ():
        yield Trouble(subject=refusal.model, words=refusal.words)
    for gateway in plane.gateways.all():
        if not gateway.connected:
            yield Trouble(subject=gateway.id, words="the gateway is not connected")
    for one in plane.passes.values():
        if one.last is not None and one.last.error is not None:
            yield Trouble(subject=one.name, words=one.last.error)


def _pass(one: Periodic) -> PassShown:
    last = one.last
    return PassShown(
        name=one.name,
        at=last.at if last else None,
        sentence=last.sentence if last else None,
        error=last.error if last else None,
    )


OPERATIONS = (Operation("GET", f"{PREFIX}/status", READ, status, "The cluster in one look."),)
