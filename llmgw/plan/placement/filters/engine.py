"""Is the engine there, in the version that is asked for."""

from llmgw.model.catalog import LLAMACPP, SIMULATED
from llmgw.model.node import FAILED, INSTALLED, INSTALLING, InstalledEngine, Node
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space
from llmgw.plan.records import NEVER, NOT_NOW, Verdict

_THERE = (None, INSTALLED)


def engine(request: Request, space: Space) -> Verdict | None:
    """Turn away a node without the engine, in its own words when it installs or failed to.

    An engine of the operator, whose version nobody knows, is left to its node to refuse.
    """
    if request.profile.engine == SIMULATED:
        return None
    inventory = space.node.inventory
    if inventory.engines is None:
        if inventory.engines_probed is False:
            return _verdict(NOT_NOW, f"{space.node.id}: has not looked for its engines yet")
        return None
    for one in inventory.engines:
        if is_ready(request, one):
            return None
    there = [one for one in inventory.engines if one.engine == request.profile.engine]
    return _without(request, space.node, there)


def is_ready(request: Request, one: InstalledEngine) -> bool:
    """Say whether an installed engine is the one that is asked for."""
    if one.engine != request.profile.engine or one.state not in _THERE:
        return False
    wanted = request.profile.engine_version
    return wanted is None or one.version is None or one.version == wanted


def _verdict(kind: str, words: str) -> Verdict:
    return Verdict(kind=kind, rule="engine", words=words)


def _without(request: Request, node: Node, there: list[InstalledEngine]) -> Verdict:
    wanted, version = request.profile.engine, request.profile.engine_version
    for one in there:
        if one.state == INSTALLING:
            return _verdict(NOT_NOW, f"{node.id}: {one.words or f'installing {wanted}'}")
    for one in there:
        if one.state == FAILED:
            return _verdict(NEVER, f"{node.id}: {one.words or f'could not install {wanted}'}")
    if there:
        has = ", ".join(sorted(one.version or "?" for one in there))
        return _verdict(NEVER, f"{node.id}: has {wanted} {has}, needs {version}")
    if node.inventory.engines_probed is False:
        return _verdict(NOT_NOW, f"{node.id}: has not looked for its engines yet")
    if request.ordered and wanted in (node.inventory.can_install or (LLAMACPP,)):
        return _verdict(NOT_NOW, f"{node.id}: has not begun to install {wanted} yet")
    return _verdict(NEVER, f"{node.id}: {wanted} is not installed")
