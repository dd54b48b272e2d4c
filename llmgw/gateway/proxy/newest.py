"""What a request goes by now: the routes may be others than when it began."""

from collections.abc import Callable, Mapping

from llmgw.gateway.proxy.endpoints import Way, shared
from llmgw.model.gateway import Route

LEFT = "it left the catalog"


def newest(way: Way, name: str, ways: Mapping[str, Way], below: Callable[[int], int]) -> Way:
    """Return what has taken a route's place; where nothing has, a route without engines.

    A request that one of the models under a public name can't take any more is another's.

    Args:
        way: the route that it went by.
        name: what its client asked for.
        ways: all of them, as they are now.
        below: a random integer from 0 to below its argument.
    """
    if way.stands_in_for is not None:
        owner = ways.get(way.stands_in_for)
        found = owner.outside if owner is not None else None
    else:
        found = ways.get(way.model)
        public = ways.get(name)
        if public is not None and public.splits and (found is None or not found.engines):
            found = shared(public, ways, below)
    return found or Way(Route(model=way.model, reason=LEFT), ())


def stand_in(name: str, ways: Mapping[str, Way]) -> Way | None:
    """Return where requests for a name go when nothing that serves it can take them.

    Returns:
        None: nothing stands in, or it has no engine either.
    """
    way = ways.get(name)
    if way is None:
        return None
    found = way.outside or (ways.get(way.fallback) if way.fallback else None)
    return found if found is not None and found.engines else None
