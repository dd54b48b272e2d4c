"""What written settings must mean, beyond their shape; and the fingerprint of what is started."""

import hashlib
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import msgspec

from llmgw.model.catalog import ENGINES, Model, Profile
from llmgw.model.catalog_check import check_sha256
from llmgw.model.record import Problem
from llmgw.model.settings import LAUNCHERS, EngineOrder, Settings


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
    link, reconcile = settings.link, settings.reconcile
    gateway, certificates = settings.gateway, settings.certificates
    seconds: tuple[tuple[str, float, float, float], ...] = (
        ("link.heartbeat_interval", link.heartbeat_interval, 0.2, 300),
        ("link.lost_after", link.lost_after, 3 * link.heartbeat_interval, 86_400),
        ("link.request_deadline", link.request_deadline, 0.5, 600),
        ("reconcile.period", reconcile.period, 0.1, 300),
        ("reconcile.settling", reconcile.settling, 0, 3600),
        ("reconcile.start_grace", reconcile.start_grace, 1, 3600),
        ("gateway.request_body_bytes", gateway.request_body_bytes, 1024, 1 << 32),
        ("gateway.connect_timeout", gateway.connect_timeout, 0.1, 120),
        ("gateway.first_byte_timeout", gateway.first_byte_timeout, 1, 86_400),
        ("gateway.idle_timeout", gateway.idle_timeout, 1, 86_400),
        ("gateway.client_timeout", gateway.client_timeout, 1, 86_400),
        ("certificates.lifetime", certificates.lifetime, 10, 10 * 365 * 86_400.0),
        ("certificates.join_token_lifetime", certificates.join_token_lifetime, 10, 30 * 86_400.0),
    )
    for path, value, least, most in seconds:
        if not least <= value <= most:
            yield Problem(path=path, words=f"{value:g} is not between {least:g} and {most:g}")
    name = settings.cluster.name
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name):
        yield Problem(path="cluster.name", words=f"{name!r} is not a name of a-z, 0-9 and -")
    yield from _address("discovery.dcgm_exporter", settings.discovery.dcgm_exporter)
    yield from _address("prometheus.url", settings.prometheus.url)
    if "?" in settings.prometheus.url or "#" in settings.prometheus.url:
        words = "must not have a ?query or a #fragment: the API's own path is put behind it"
        yield Problem(path="prometheus.url", words=words)
    for engine, order in settings.engines.items():
        if engine not in ENGINES:
            known = ", ".join(ENGINES)
            yield Problem(path=f"engines.{engine}", words=f"is none of {known}")
        yield from _builds(f"engines.{engine}.builds", order)


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


def _builds(path: str, order: EngineOrder) -> Iterator[Problem]:
    if not order.builds:
        yield Problem(path=path, words="at least one build is needed")
    for number, build in enumerate(order.builds):
        where = f"{path}[{number}]"
        for index, package in enumerate(build.packages):
            yield from check_sha256(f"{where}.packages[{index}].sha256", package.sha256)
        for part in (build.program, *build.libraries):
            if part.startswith("/") or ".." in part.split("/"):
                yield Problem(path=where, words=f"{part!r} must lie inside the packages")
        if build.launcher not in LAUNCHERS:
            known = " or ".join(repr(name) for name in LAUNCHERS)
            yield Problem(path=f"{where}.launcher", words=f"{build.launcher!r} is not {known}")
