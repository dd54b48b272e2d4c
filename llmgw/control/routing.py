"""Where requests go: a pure function of fleet, catalog and settings, computed once per change."""

from collections.abc import Callable

from llmgw.control.feed import Feed
from llmgw.model.feed import ROUTES
from llmgw.model.gateway import Route


class Routing:
    """The newest routes by model. `feed.touch(ROUTES)` says that they may have changed.

    They are computed when somebody reads after that, whoever it is and however many changes there
    were; a route that came out as it was marks nothing.
    """

    def __init__(self, feed: Feed, compute: Callable[[], tuple[Route, ...]]) -> None:
        self._feed = feed
        self._compute = compute
        self._routes: dict[str, Route] = {}
        feed.serve(ROUTES, lambda: tuple(self._routes), self._routes.get, self._refresh)

    def all(self) -> tuple[Route, ...]:
        """Return all routes, by model."""
        self._feed.refresh((ROUTES,))
        return tuple(self._routes[model] for model in sorted(self._routes))

    def get(self, model: str) -> Route | None:
        """Return a model's route; None when the catalog has no such model."""
        self._feed.refresh((ROUTES,))
        return self._routes.get(model)

    def _refresh(self) -> None:
        newest = {route.model: route for route in self._compute()}
        gone = [model for model in self._routes if model not in newest]
        changed = [m for m, route in newest.items() if self._routes.get(m) != route]
        for model in gone:
            del self._routes[model]
        for model in changed:
            self._routes[model] = newest[model]
        for model in (*gone, *changed):
            self._feed.mark(ROUTES, model)
