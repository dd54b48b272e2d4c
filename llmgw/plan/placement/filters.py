"""Why a node can't take a replica: one small function a rule, each with its own words.

A filter returns None when the node passes. What a node does not say never turns it away (invariant
4): an old agent is asked and refuses by itself.
"""

from collections.abc import Callable

from llmgw.model.catalog import LLAMACPP, SIMULATED
from llmgw.model.commands import FEATURE_OF, StartShard
from llmgw.model.node import (
    FAILED,
    INSTALLED,
    INSTALLING,
    LOST,
    READY,
    Filesystem,
    InstalledEngine,
    Node,
)
from llmgw.plan.placement import devices as devices_
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space
from llmgw.plan.records import NEVER, NOT_NOW, NOT_UNLESS_EVICTED, Verdict
from llmgw.plan.words import gigabytes

Filter = Callable[[Request, Space], Verdict | None]


def state(request: Request, space: Space) -> Verdict | None:
    """Turn away a node that is not ready, or that an operator takes out."""
    node = space.node
    if node.liveness != READY:
        return _state_of(node)
    if node.wish is not None:
        return Verdict(kind=NEVER, rule="state", words=f"{node.id}: is {node.wish}")
    return None


def agent(request: Request, space: Space) -> Verdict | None:
    """Turn away a node whose agent says that it starts no engines."""
    node = space.node
    if node.features is None or FEATURE_OF[StartShard] in node.features:
        return None
    version = node.agent_version or "of an unknown version"
    return Verdict(
        kind=NEVER, rule="agent", words=f"{node.id}: its agent ({version}) starts no engines"
    )


def labels(request: Request, space: Space) -> Verdict | None:
    """Turn away a node without the labels that the profile asks for."""
    selector = request.profile.node_selector
    if not selector:
        return None
    node = space.node
    for name, wanted in sorted(selector.items()):
        value = node.labels.get(name)
        if value != wanted:
            has = f"label {name} is {value}" if value is not None else f"no label {name}"
            words = f"{node.id}: {has}, needs {name}={wanted}"
            return Verdict(kind=NEVER, rule="labels", words=words)
    return None


def devices(request: Request, space: Space) -> Verdict | None:
    """Turn away a node without enough devices of one class that are healthy, free and unused."""
    profile = request.profile
    if profile.gpus == 0 or devices_.chosen_class(profile, space) is not None:
        return None
    return devices_.shortage(request, space)


def memory(request: Request, space: Space) -> Verdict | None:
    """Turn away a node whose memory, less what is booked of it, is too small."""
    need = request.memory_bytes
    host = space.node.inventory.host
    total = host.memory_bytes if host is not None else None
    if need is None or total is None:
        return None
    node, needs = space.node.id, f"needs {gigabytes(need)}"
    if total < need:
        words = f"{node}: {gigabytes(total)} GB of memory, {needs}"
        return Verdict(kind=NEVER, rule="memory", words=words)
    if space.unknown is not None:
        return _unknown_use("memory", f"{gigabytes(total)} GB of memory", space)
    if total - space.memory >= need:
        return None
    free = gigabytes(max(total - space.memory, 0))
    words = f"{node}: {free} of {gigabytes(total)} GB of memory free, {needs}"
    leaving = sum(b.memory_bytes or 0 for b in space.bookings if b.replica in space.leaving)
    kind = NOT_NOW if total - space.memory + leaving >= need else NOT_UNLESS_EVICTED
    return Verdict(kind=kind, rule="memory", words=words)


def cores(request: Request, space: Space) -> Verdict | None:
    """Turn away a node with too few CPU cores that are not reserved."""
    need = request.profile.cpu_cores
    host = space.node.inventory.host
    total = host.cpus if host is not None else None
    if need is None or total is None:
        return None
    node = space.node.id
    if total < need:
        return Verdict(kind=NEVER, rule="cores", words=f"{node}: {total} CPU cores, needs {need}")
    if space.unknown is not None:
        return _unknown_use("cores", f"{total} CPU cores", space)
    if total - space.cores >= need:
        return None
    words = f"{node}: {max(total - space.cores, 0)} of {total} CPU cores free, needs {need}"
    leaving = sum(b.cpu_cores or 0 for b in space.bookings if b.replica in space.leaving)
    kind = NOT_NOW if total - space.cores + leaving >= need else NOT_UNLESS_EVICTED
    return Verdict(kind=kind, rule="cores", words=words)


def engine(request: Request, space: Space) -> Verdict | None:
    """Turn away a node without the engine, in its own words when it installs or failed to."""
    wanted, version = request.profile.engine, request.profile.engine_version
    inventory = space.node.inventory
    if wanted == SIMULATED:
        return None
    if inventory.engines is None:
        if inventory.engines_probed is False:
            return _engine(NOT_NOW, f"{space.node.id}: has not looked for its engines yet")
        return None
    there = [one for one in inventory.engines if one.engine == wanted]
    for one in there:
        if one.state in {None, INSTALLED} and version in {None, one.version}:
            return None
        if one.state in {None, INSTALLED} and one.version is None:
            return None
    return _without_engine(request, space.node, there)


def disk(request: Request, space: Space) -> Verdict | None:
    """Turn away a node without space for the weights, unless it holds them already."""
    need = request.disk_bytes
    if need is None or request.weights in space.weights:
        return None
    free = _free_disk(space.node.inventory.filesystems or ())
    if free is None or free >= need:
        return None
    words = f"{space.node.id}: {gigabytes(free)} GB of disk free, needs {gigabytes(need)}"
    return Verdict(kind=NEVER, rule="disk", words=words)


FILTERS: tuple[Filter, ...] = (state, agent, labels, devices, memory, cores, engine, disk)
"""In the order in which a person would ask: is it there, meant, big enough, ready."""


def first_refusal(request: Request, space: Space) -> Verdict | None:
    """Return what the first filter says that turns the node away; None: it can take the replica."""
    for rule in FILTERS:
        verdict = rule(request, space)
        if verdict is not None:
            return verdict
    return None


def _state_of(node: Node) -> Verdict:
    if node.liveness is None:
        words = "has not reported since the control plane started"
    elif node.liveness == LOST:
        words = "is lost; nothing new is placed there"
    else:
        words = f"is {node.liveness}; nothing new is placed there"
    kind = NEVER if node.liveness == LOST else NOT_NOW
    return Verdict(kind=kind, rule="state", words=f"{node.id}: {words}")


def _unknown_use(rule: str, what: str, space: Space) -> Verdict:
    words = f"{space.node.id}: what {space.unknown} uses of {what} is not known and counts as all"
    return Verdict(kind=NOT_NOW, rule=rule, words=words)


def _engine(kind: str, words: str) -> Verdict:
    return Verdict(kind=kind, rule="engine", words=words)


def _without_engine(request: Request, node: Node, there: list[InstalledEngine]) -> Verdict:
    wanted, version = request.profile.engine, request.profile.engine_version
    for one in there:
        if one.state == INSTALLING:
            return _engine(NOT_NOW, f"{node.id}: {one.words or f'installing {wanted}'}")
    for one in there:
        if one.state == FAILED:
            return _engine(NEVER, f"{node.id}: {one.words or f'could not install {wanted}'}")
    if there:
        has = ", ".join(sorted(one.version or "?" for one in there))
        return _engine(NEVER, f"{node.id}: has {wanted} {has}, needs {version}")
    if node.inventory.engines_probed is False:
        return _engine(NOT_NOW, f"{node.id}: has not looked for its engines yet")
    if request.ordered and wanted in (node.inventory.can_install or (LLAMACPP,)):
        return _engine(NOT_NOW, f"{node.id}: has not begun to install {wanted} yet")
    return _engine(NEVER, f"{node.id}: {wanted} is not installed")


def _free_disk(filesystems: tuple[Filesystem, ...]) -> int | None:
    """Return the space where weights land: by the directory's name, else the most there is."""
    named = [f for f in filesystems if any("weights" in name for name in f.directories)]
    known = [f.free_bytes for f in named or filesystems if f.free_bytes is not None]
    return max(known, default=None)
