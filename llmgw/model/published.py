"""Routes with what people write beside the catalog: static endpoints, weights, fall-backs."""

from collections.abc import Iterable
from urllib.parse import urlsplit

import msgspec

from llmgw.model.gateway import Endpoint, Route, Split
from llmgw.model.publishing import Fallback, PublicRoute, Publishing, StaticEndpoint

OUTSIDE = "outside"
"""What the id of a provider's endpoint begins with."""
STATIC = "static"
"""What the id of a static endpoint begins with."""
_PORTS = {"http": 80, "https": 443}


def published(
    routes: Iterable[Route], publishing: Publishing, *, stopped: bool = False
) -> tuple[Route, ...]:
    """Return the routes with static endpoints and public names, by name.

    Args:
        routes: those of the catalog.
        publishing: what is written beside it; checked already.
        stopped: nothing is routed.
    """
    found = {route.model: route for route in routes}
    for model, written in publishing.endpoints.items():
        route = found.get(model) or Route(model=model)
        if not stopped:
            more = tuple(static_endpoint(model, one) for one in written)
            route = msgspec.structs.replace(
                route,
                endpoints=(*route.endpoints, *more),
                wanted=route.wanted + len(more),
                holds=route.holds and not more,
                reason=None if more else route.reason,
            )
        found[model] = route
    for name, public in publishing.routes.items():
        found[name] = _public(name, public, found.get(name), publishing, stopped=stopped)
    return tuple(found[name] for name in sorted(found))


def static_endpoint(model: str, written: StaticEndpoint) -> Endpoint:
    """Return an engine that no agent runs as requests go to it."""
    endpoint = _at(written.url, f"{STATIC}/{model}")
    return msgspec.structs.replace(
        endpoint,
        replica=f"{endpoint.replica}/{endpoint.host}:{endpoint.port}{endpoint.base_path or ''}",
        served_name=written.model or None,
        key_file=written.key_file or None,
        engine=written.engine or None,
        concurrency=written.concurrency,
    )


def _public(
    name: str,
    public: PublicRoute,
    own: Route | None,
    publishing: Publishing,
    *,
    stopped: bool,
) -> Route:
    route = own or Route(model=name, reason="no model of the catalog has this name")
    shares = {} if set(public.models) == {name} else public.models
    splits = tuple(
        Split(model=model, weight=weight) for model, weight in sorted(shares.items()) if weight
    )
    fallback, outside = public.fallback, None
    if fallback is not None and fallback.provider:
        outside = None if stopped else _outside(fallback, publishing)
    return msgspec.structs.replace(
        route,
        splits=splits,
        fallback=fallback.model if fallback is not None and not fallback.provider else None,
        outside=outside,
    )


def _outside(fallback: Fallback, publishing: Publishing) -> Endpoint:
    provider = publishing.providers[fallback.provider]
    return msgspec.structs.replace(
        _at(provider.url, f"{OUTSIDE}/{fallback.provider}/{fallback.model}"),
        served_name=fallback.model,
        key_file=provider.key_file or None,
        is_outside=True,
    )


def _at(url: str, replica: str) -> Endpoint:
    parts = urlsplit(url)
    return Endpoint(
        replica=replica,
        host=parts.hostname or "",
        port=parts.port or _PORTS[parts.scheme],
        tls=parts.scheme == "https",
        base_path=parts.path.rstrip("/") or None,
    )
