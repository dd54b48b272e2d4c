"""Why there is no group of nodes for a replica of several: what each lacks, or lacks beside it."""

from collections import Counter
from collections.abc import Mapping

from llmgw.plan.placement.kinds import MILDEST, mildest
from llmgw.plan.placement.networks import RULE, UNTOLD, Network, Wiring, wiring
from llmgw.plan.placement.rated import rated
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Room
from llmgw.plan.placement.several import classes, members, not_reached, of_class
from llmgw.plan.records import NEVER, NOT_NOW, NOT_UNLESS_EVICTED, Verdict

_Together = dict[tuple[Network, str], tuple[int, bool]]
"""How many nodes that fit are on a network, by the class that they have free, and whether that is
all of them: others may have another class."""


def refusals(request: Request, room: Room) -> dict[str, Verdict]:
    """Return why each node is in no group, where there is none."""
    on = wiring(room, request.profile.fabric)
    alone = rated(request, room)
    verdicts: dict[str, Verdict] = {}
    for name, found in alone.items():
        refused = found if isinstance(found, Verdict) else not_reached(room.spaces[name], on)
        if refused is not None:
            verdicts[name] = refused
    helps = _helps(alone, on)
    fits = _fits(request, room)
    for name in room.spaces:
        if name not in verdicts:
            verdicts[name] = _too_few(request, name, fits[name], helps)
    return verdicts


def _fits(request: Request, room: Room) -> dict[str, _Together]:
    """Return, for each node that fits, how many fit on its networks."""
    there: dict[tuple[Network, str], set[str]] = {}
    everywhere: dict[Network, set[str]] = {}
    for name in classes(request, room):
        for network, fitting in members(of_class(request, name), room).items():
            there[network, name] = {member.node for member in fitting}
            everywhere.setdefault(network, set()).update(there[network, name])
    found: dict[str, _Together] = {name: {} for name in room.spaces}
    for key, nodes in there.items():
        for node in nodes:
            found[node][key] = len(nodes), len(nodes) == len(everywhere[key[0]])
    return found


def _helps(alone: Mapping[str, int | Verdict], on: Wiring) -> dict[Network | None, Counter[str]]:
    """Return what would let further nodes fit, by network; None: wherever they turn out to be."""
    found: dict[Network | None, Counter[str]] = {}
    for name, verdict in alone.items():
        kinds = [one.kind for one in (verdict, on.refused.get(name)) if isinstance(one, Verdict)]
        if kinds:
            kind = max(kinds, key=MILDEST.index)
            for network in on.of.get(name) or (None,):
                found.setdefault(network, Counter())[kind] += 1
    return found


def _too_few(
    request: Request, name: str, fits: _Together, helps: Mapping[Network | None, Counter[str]]
) -> Verdict:
    """Return the refusal of a node that fits, and beside which too few others do."""
    need = request.profile.nodes
    kind = mildest(_kind(need - count, network, helps) for (network, _), (count, _) in fits.items())
    network, device_class = max(fits, key=lambda key: (fits[key][0], -key[0].kind, key))
    count, all_of_them = fits[network, device_class]
    what = "" if all_of_them else f" with {request.profile.gpus} {device_class or 'GPUs'}"
    if network.kind == UNTOLD:
        words = (
            f"can't say which network its ports of fabric {network.name} are on; "
            f"{count} of {need} such nodes fit{what}"
        )
    else:
        words = f"{count} of {need} nodes that fit{what} are on {network.words}"
    return Verdict(kind=kind, rule=RULE, words=f"{name}: {words}")


def _kind(lacks: int, network: Network, helps: Mapping[Network | None, Counter[str]]) -> str:
    there = helps.get(network, Counter[str]()) + helps.get(None, Counter[str]())
    if there[NOT_NOW] >= lacks:
        return NOT_NOW
    return NOT_UNLESS_EVICTED if there[NOT_NOW] + there[NOT_UNLESS_EVICTED] >= lacks else NEVER
