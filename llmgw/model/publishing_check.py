"""What written public names, endpoints and providers must mean, beyond their shape."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from llmgw.model.published import static_endpoint
from llmgw.model.publishing import PublicRoute, Publishing, StaticEndpoint
from llmgw.model.record import Problem

ENDPOINTS_MOST = 256
"""Static endpoints of one model."""
MODELS_MOST = 16
"""Models of one public name."""
WEIGHT_MOST = 1_000_000
NAME_MOST = 200


def check_publishing(publishing: Publishing) -> tuple[Problem, ...]:
    """Return every problem, each with its path below `publishing`; empty when there is none."""
    return tuple(_publishing(publishing))


def _publishing(publishing: Publishing) -> Iterator[Problem]:
    for model, endpoints in publishing.endpoints.items():
        path = f"endpoints.{model}"
        yield from _name(path, model)
        if len(endpoints) > ENDPOINTS_MOST:
            yield Problem(path=path, words=f"more than {ENDPOINTS_MOST} endpoints")
        for number, endpoint in enumerate(endpoints):
            where = f"{path}[{number}]"
            yield from _url(f"{where}.url", endpoint.url)
            yield from _file(f"{where}.key_file", endpoint.key_file)
            if endpoint.concurrency is not None and endpoint.concurrency < 1:
                yield Problem(path=f"{where}.concurrency", words="must be 1 or more")
        yield from _twice(path, model, endpoints)
    for name, provider in publishing.providers.items():
        yield from _url(f"providers.{name}.url", provider.url)
        yield from _file(f"providers.{name}.key_file", provider.key_file)
    for name, route in publishing.routes.items():
        yield from _name(f"routes.{name}", name)
        yield from _route(f"routes.{name}", name, route, publishing)


def _twice(path: str, model: str, endpoints: tuple[StaticEndpoint, ...]) -> Iterator[Problem]:
    """Tell of endpoints at one address: what is in flight there is counted for it, once."""
    seen: dict[str, int] = {}
    for number, endpoint in enumerate(endpoints):
        if any(_url("", endpoint.url)):
            continue
        first = seen.setdefault(static_endpoint(model, endpoint).replica, number)
        if first != number:
            words = f"is the same place as endpoints.{model}[{first}]"
            yield Problem(path=f"{path}[{number}].url", words=words)


def _route(path: str, name: str, route: PublicRoute, publishing: Publishing) -> Iterator[Problem]:
    if len(route.models) > MODELS_MOST:
        yield Problem(path=f"{path}.models", words=f"more than {MODELS_MOST} models")
    if route.models and not any(weight > 0 for weight in route.models.values()):
        yield Problem(path=f"{path}.models", words="one of the weights must be more than 0")
    for model, weight in route.models.items():
        where = f"{path}.models.{model}"
        if not 0 <= weight <= WEIGHT_MOST:
            yield Problem(path=where, words=f"{weight} is not between 0 and {WEIGHT_MOST}")
        if model != name and model in publishing.routes and publishing.routes[model].models:
            yield Problem(path=where, words="is a public name with models of its own")
    yield from _fallback(path, name, route, publishing)


def _fallback(
    path: str, name: str, route: PublicRoute, publishing: Publishing
) -> Iterator[Problem]:
    fallback = route.fallback
    if fallback is None:
        return
    yield from _name(f"{path}.fallback.model", fallback.model)
    if fallback.provider and fallback.provider not in publishing.providers:
        words = f"{fallback.provider!r} is none of the providers"
        yield Problem(path=f"{path}.fallback.provider", words=words)
    if not fallback.provider and (fallback.model == name or fallback.model in route.models):
        words = "is the model that it stands in for"
        yield Problem(path=f"{path}.fallback.model", words=words)


def _name(path: str, name: str) -> Iterator[Problem]:
    if not name.strip() or name != name.strip() or not name.isprintable():
        yield Problem(path=path, words="a name is not empty, and is printable")
    elif len(name) > NAME_MOST:
        yield Problem(path=path, words=f"a name has at most {NAME_MOST} characters")


def _file(path: str, file: str) -> Iterator[Problem]:
    if file and (not file.startswith("/") or not file.isprintable() or ".." in file.split("/")):
        yield Problem(path=path, words=f"{file!r} is not the whole path of a file")


def _url(path: str, url: str) -> Iterator[Problem]:
    """Check an address; no message repeats one that may hold a secret."""
    try:
        parts = urlsplit(url)
        whole = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        whole = False
        parts = urlsplit("")
    if "@" in parts.netloc or parts.query or parts.fragment:
        words = "must not hold a user, a password, a ?query or a #fragment"
        yield Problem(path=path, words=words)
    elif not whole or not url.isascii() or not url.isprintable() or " " in url:
        yield Problem(path=path, words="is not an http(s) address")
    elif not _is_host(parts.hostname or ""):
        yield Problem(path=path, words="names a host that can't be looked up")


def _is_host(host: str) -> bool:
    """Say whether a host's name can be looked up: its parts have 1 to 63 characters."""
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False
