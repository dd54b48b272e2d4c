"""What written settings must mean, beyond their shape; and the fingerprint of what is started."""

import hashlib
import ipaddress
import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

import msgspec

from llmgw.model.bounds import shortened
from llmgw.model.catalog import ENGINES, Model, Profile
from llmgw.model.publishing import Publishing
from llmgw.model.publishing_check import check_publishing
from llmgw.model.record import Problem
from llmgw.model.settings import (
    LAUNCHERS,
    ClusterSettings,
    DiscoverySettings,
    EngineBuild,
    EngineOrder,
    GatewaySettings,
    PrometheusSettings,
    Settings,
)
from llmgw.model.source_check import check_sha256
from llmgw.model.unread import each

TLS_NAMES_MOST = 64
_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*")


def check_settings(settings: Settings) -> tuple[Problem, ...]:
    """Return every problem of the settings, each with its path; empty when there is none."""
    return tuple(_settings(settings))


def fingerprint(model: Model, profile: Profile) -> str:
    """Return a hash of all that a replica is started with: source, profile, adapters.

    How many replicas are wanted, and when, is no part of it: a change of that restarts nothing.
    """
    started_with = msgspec.structs.replace(
        profile, replicas=1, max_replicas=None, scaling=None, priority=0, node_selector={}
    )
    what: list[object] = [model.name, model.source, model.adapters, model.allow_pickle]
    what.append(started_with)
    if model.generation:  # left out at 0, so that what was started by an older llmgw still matches
        what.append(model.generation)
    text = msgspec.json.encode(what, order="sorted")
    return hashlib.sha256(text).hexdigest()[:16]


def _settings(settings: Settings) -> Iterator[Problem]:
    yield from each(
        *(_outside(settings, *bound) for bound in _BOUNDS),
        _lost_after(settings),
        _name(settings.cluster),
        _dcgm_exporter(settings.discovery),
        _prometheus(settings.prometheus),
        _engines(settings.engines),
        _tls_names(settings.gateway),
        _publishing(settings.publishing),
    )


_BOUNDS: tuple[tuple[str, str, float, float], ...] = (
    ("link", "heartbeat_interval", 0.2, 300),
    ("link", "request_deadline", 0.5, 600),
    ("reconcile", "period", 0.1, 300),
    ("reconcile", "settling", 0, 3600),
    ("reconcile", "start_grace", 1, 3600),
    ("reconcile", "drain_limit", 0, 86_400),
    ("gateway", "request_body_bytes", 1024, 1 << 32),
    ("gateway", "connect_timeout", 0.1, 120),
    ("gateway", "first_byte_timeout", 1, 86_400),
    ("gateway", "idle_timeout", 1, 86_400),
    ("gateway", "client_timeout", 1, 86_400),
    ("gateway", "replica_connections", 1, 1_000_000),
    ("gateway", "held_most", 0, 1_000_000),
    ("gateway", "held_for", 0, 86_400),
    ("gateway", "queue_most", 0, 1_000_000),
    ("gateway", "queue_for", 0, 86_400),
    ("gateway", "replica_requests", 1, 1_000_000),
    ("gateway", "comment_period", 0, 3600),
    ("gateway", "held_bytes", 1 << 20, 1 << 42),
    ("certificates", "lifetime", 10, 10 * 365 * 86_400.0),
    ("certificates", "join_token_lifetime", 10, 30 * 86_400.0),
)


def _outside(
    settings: Settings, group: str, name: str, least: float, most: float
) -> Iterator[Problem]:
    value = getattr(getattr(settings, group), name)
    if value is not None:
        yield from _between(f"{group}.{name}", value, least, most)


def _between(path: str, value: float, least: float, most: float) -> Iterator[Problem]:
    if not least <= value <= most:
        yield Problem(path=path, words=f"{value:g} is not between {least:g} and {most:g}")


def _lost_after(settings: Settings) -> Iterator[Problem]:
    link = settings.link
    yield from _between("link.lost_after", link.lost_after, 3 * link.heartbeat_interval, 86_400)


def _name(cluster: ClusterSettings) -> Iterator[Problem]:
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", str(cluster.name)):
        words = f"{cluster.name!r} is not a name of a-z, 0-9 and -"
        yield Problem(path="cluster.name", words=words)


def _dcgm_exporter(discovery: DiscoverySettings) -> Iterator[Problem]:
    yield from _address("discovery.dcgm_exporter", discovery.dcgm_exporter)


def _prometheus(prometheus: PrometheusSettings) -> Iterator[Problem]:
    yield from _address("prometheus.url", prometheus.url)
    if "?" in prometheus.url or "#" in prometheus.url:
        words = "must not have a ?query or a #fragment: the API's own path is put behind it"
        yield Problem(path="prometheus.url", words=words)


def _engines(engines: Mapping[str, EngineOrder]) -> Iterator[Problem]:
    for engine, order in engines.items():
        if engine not in ENGINES:
            words = f"is none of {', '.join(ENGINES)}"
            yield Problem(path=f"engines.{engine}", words=words)
        yield from each(_order(f"engines.{engine}.builds", order))


def _tls_names(gateway: GatewaySettings) -> Iterator[Problem]:
    names = gateway.tls_names
    if len(names) > TLS_NAMES_MOST:
        words = f"{len(names)} names: a certificate has {TLS_NAMES_MOST} at most"
        yield Problem(path="gateway.tls_names", words=words)
    for number, name in enumerate(names):
        if not (_is_address(name) or (len(name) <= 253 and _HOST.fullmatch(name))):
            words = (
                f"{shortened(name, 60)!r} is neither a host name in small letters nor an address"
            )
            yield Problem(path=f"gateway.tls_names[{number}]", words=words)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _publishing(publishing: Publishing) -> Iterator[Problem]:
    for problem in check_publishing(publishing):
        yield Problem(path=f"publishing.{problem.path}", words=problem.words)


def _address(path: str, url: str) -> Iterator[Problem]:
    """Check an address that is asked again and again; empty is none.

    Everybody who may read the settings sees it, so it holds no secret, and no message repeats one.
    """
    if not url:
        return
    if "@" in url.partition("?")[0]:
        yield Problem(path=path, words="must not hold a user or a password")
        return
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        whole = False
    if not whole or not url.isprintable() or " " in url:
        yield Problem(path=path, words=f"{url!r} is not an http(s) address")


def _order(path: str, order: EngineOrder) -> Iterator[Problem]:
    if not order.builds:
        yield Problem(path=path, words="at least one build is needed")
    for number, build in enumerate(order.builds):
        where = f"{path}[{number}]"
        yield from each(_packages(where, build), _inside(where, build), _launcher(where, build))


def _packages(path: str, build: EngineBuild) -> Iterator[Problem]:
    for number, package in enumerate(build.packages):
        yield from check_sha256(f"{path}.packages[{number}].sha256", package.sha256)


def _inside(path: str, build: EngineBuild) -> Iterator[Problem]:
    for part in (build.program, *build.libraries):
        if part.startswith("/") or ".." in part.split("/"):
            yield Problem(path=path, words=f"{part!r} must lie inside the packages")


def _launcher(path: str, build: EngineBuild) -> Iterator[Problem]:
    if build.launcher not in LAUNCHERS:
        known = " or ".join(repr(name) for name in LAUNCHERS)
        yield Problem(path=f"{path}.launcher", words=f"{build.launcher!r} is not {known}")
