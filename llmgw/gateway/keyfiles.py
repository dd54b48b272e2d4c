"""Keys of engines and providers that lie in files on this machine."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from llmgw.base.errors import LlmgwError
from llmgw.base.log import get
from llmgw.base.places import read_private
from llmgw.model.gateway import Endpoint, Route

log = get(__name__)


class KeyFiles:
    """Puts keys into routes. A file that can't be read is told of once, until it can be."""

    def __init__(self) -> None:
        self._faulty: dict[str, str] = {}

    def with_keys(self, routes: Iterable[Route]) -> tuple[Route, ...]:
        """Return routes with the keys of their endpoints; one whose key can't be read is left out.

        Files are read each time: a key that changed counts with the next change of a route.
        """
        return tuple(self._with_keys(route) for route in routes)

    def _with_keys(self, route: Route) -> Route:
        every = route.endpoints if route.outside is None else (*route.endpoints, route.outside)
        if not any(one.key_file for one in every):
            return route
        endpoints = tuple(
            found for one in route.endpoints if (found := self._with_key(one)) is not None
        )
        lost = len(route.endpoints) - len(endpoints)
        return msgspec.structs.replace(
            route,
            endpoints=endpoints,
            outside=None if route.outside is None else self._with_key(route.outside),
            reason=f"the keys of {lost} endpoints can't be read" if lost else route.reason,
        )

    def _with_key(self, endpoint: Endpoint) -> Endpoint | None:
        if endpoint.key_file is None:
            return endpoint
        try:
            key = read_private(Path(endpoint.key_file)).decode("ascii").strip()
        except (LlmgwError, OSError, UnicodeDecodeError) as error:
            self._tell(endpoint, str(error))
            return None
        if not key or not key.isprintable():
            self._tell(endpoint, "it holds no key")
            return None
        self._faulty.pop(endpoint.key_file, None)
        return msgspec.structs.replace(endpoint, key=key)

    def _tell(self, endpoint: Endpoint, words: str) -> None:
        file = endpoint.key_file or ""
        if self._faulty.get(file) != words:
            self._faulty[file] = words
            log.warning("a key can't be read", replica=endpoint.replica, file=file, why=words)
