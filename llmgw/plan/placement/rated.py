"""What each node is worth for a request, or why it is turned away; kept between placements.

Most nodes know nothing of a model: they neither hold its weights nor run or failed to start it.
What they are worth is the same for all alike requests, and worked out once for those together.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from llmgw.plan.placement.filters import Filter, first_refusal, fits, needed
from llmgw.plan.placement.rank import Ranking
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Room, Space
from llmgw.plan.placement.scores import total, total_of_stranger
from llmgw.plan.records import Verdict

_OWN_RANKING = 32
"""Above so many nodes that know a model, it gets a ranking of its own."""

_Worth = Callable[[Request, Space], int]


def best(request: Request, room: Room) -> str | None:
    """Return the best node for one shard: of strangers by rank, of those that know it by hand."""
    known = _known(request, room)
    if len(known) > _OWN_RANKING:
        key = ("model", request.model.name, request.weights, request.shape())
        first = _ranking(room, key, request, total).best(request.held_back)
        return first[1] if first is not None else None
    found: list[tuple[int, str]] = []
    stranger = _strangers(request, room).best(known)
    if stranger is not None:
        found.append((-stranger[0], stranger[1]))
    for name in known:
        space = room.spaces[name]
        if name not in request.held_back and fits(request, space):
            found.append((-total(request, space), name))
    return min(found)[1] if found else None


def rated(request: Request, room: Room) -> dict[str, int | Verdict]:
    """Return what every node is worth for one shard, or why it is turned away."""
    found = dict(_strangers(request, room).rated())
    for name in _known(request, room):
        space = room.spaces[name]
        refused = _turned_away(request, space)
        found[name] = total(request, space) if refused is None else refused
    return found


def worths(request: Request, room: Room) -> dict[str, int]:
    """Return what those nodes are worth that can take one shard; no words are made for others."""
    found: dict[str, int | None] = dict(_strangers(request, room).worths())
    for name in _known(request, room):
        space = room.spaces[name]
        may = name not in request.held_back and fits(request, space)
        found[name] = total(request, space) if may else None
    return {name: worth for name, worth in found.items() if worth is not None}


def _turned_away(request: Request, space: Space) -> Verdict | None:
    """Return what the node itself is short of first: after failed starts only what fits waits."""
    return first_refusal(request, space) or request.held_back.get(space.node.id)


def _known(request: Request, room: Room) -> set[str]:
    """Return the nodes that differ for this request: they hold, run or failed to start it."""
    known = set(room.holding(request.weights))
    known.update(room.running(request.model.name))
    known.update(name for name in request.held_back if name in room.spaces)
    return known


def _strangers(request: Request, room: Room) -> Ranking:
    """Return the ranking that all alike requests share: as if no node held anything for them."""
    alike = replace(request, weights=None, held_back={})
    return _ranking(room, request.shape(), alike, total_of_stranger)


@dataclass(frozen=True, slots=True)
class _Rates:
    """What nodes are worth for one request; see `Ranking`."""

    request: Request
    score: _Worth
    filters: tuple[Filter, ...]

    def worth(self, space: Space) -> int | None:
        if not fits(self.request, space, self.filters):
            return None
        return self.score(self.request, space)

    def refusal(self, space: Space) -> Verdict:
        found = first_refusal(self.request, space, self.filters)
        assert found is not None, "asked of a node that fits"  # noqa: S101
        return found


def _ranking(room: Room, key: object, request: Request, worth: _Worth) -> Ranking:
    ranking = room.kept.get(key)
    if not isinstance(ranking, Ranking):
        ranking = room.kept[key] = Ranking(room, _Rates(request, worth, needed(request)))
    return ranking
