"""How many of a profile's replicas count while one takes the place of another."""

from collections.abc import Sequence

from llmgw.model.catalog import Model, Profile
from llmgw.model.check import fingerprint
from llmgw.model.replica import Replica
from llmgw.plan.records import Observed
from llmgw.plan.standing import Nodes, standing


def counted_once(own: Sequence[Replica], model: Model, profile: Profile, observed: Observed) -> int:
    """Return how many replicas run, an outdated one together with the one that succeeds it.

    A successor is known by that it is not ready yet: one that is, and one that load asked for, look
    the same from here.

    Args:
        own: the replicas of the profile that run or are about to.
        model: the catalog's.
        profile: theirs.
        observed: the fleet at this moment.
    """
    nodes = Nodes(by_id={room.node.id: room.node for room in observed.nodes})
    print_ = fingerprint(model, profile)
    all_ = [standing(one, model, print_, nodes) for one in own]
    old = sum(one.outdated is not None for one in all_)
    come = sum(one.outdated is None and not one.ready for one in all_)
    return len(own) - min(old, come)
