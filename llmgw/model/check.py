"""What a written model or settings must mean, beyond their shape: every problem, with its path."""

import hashlib
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import msgspec

from llmgw.model.catalog import ENGINES, SIMULATED, Model, PackageSource, Profile, UrlSource
from llmgw.model.record import Problem
from llmgw.model.settings import LAUNCHERS, EngineOrder, Settings

_SHA256 = re.compile(r"[0-9a-f]{64}")
_NAME_MOST = 200
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


def check_model(model: Model) -> tuple[Problem, ...]:
    """Return every problem of a model, each with its path; empty when there is none."""
    return tuple(_model(model))


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
    text = msgspec.json.encode(
        [model.name, model.source, model.adapters, model.allow_pickle, started_with], order="sorted"
    )
    return hashlib.sha256(text).hexdigest()[:16]


def _model(model: Model) -> Iterator[Problem]:
    if not model.name.strip() or model.name != model.name.strip():
        yield Problem(path="name", words="must not be empty or begin or end with a space")
    if len(model.name) > _NAME_MOST or not model.name.isprintable():
        yield Problem(path="name", words=f"at most {_NAME_MOST} printable characters")
    if not model.profiles:
        yield Problem(path="profiles", words="at least one profile is needed")
    yield from _source(model)
    seen: set[str] = set()
    for number, profile in enumerate(model.profiles):
        path = f"profiles[{number}]"
        if profile.name in seen:
            yield Problem(path=f"{path}.name", words=f"{profile.name!r} is there twice")
        seen.add(profile.name)
        yield from _profile(profile, model, path)


def _source(model: Model) -> Iterator[Problem]:
    source = model.source
    match source:
        case PackageSource():
            if not source.packages:
                yield Problem(path="source.packages", words="at least one package is needed")
            if not source.parts:
                yield Problem(path="source.parts", words="at least one part is needed")
            if "/" in source.file or source.file in {"", ".", ".."}:
                yield Problem(path="source.file", words=f"{source.file!r} is not a file name")
            yield from _sha256("source.sha256", source.sha256)
            for number, package in enumerate(source.packages):
                yield from _sha256(f"source.packages[{number}].sha256", package.sha256)
        case UrlSource():
            if not source.url.startswith(("https://", "http://")):
                yield Problem(path="source.url", words=f"{source.url!r} is not an http(s) address")
            if source.sha256 is not None:
                yield from _sha256("source.sha256", source.sha256)
            if source.url.lower().endswith(_PICKLES) and not model.allow_pickle:
                yield Problem(
                    path="source.url",
                    words="is a pickle, which can run code; set allow_pickle: true to let it in",
                )
        case _:
            pass


def _sha256(path: str, text: str) -> Iterator[Problem]:
    if not _SHA256.fullmatch(text):
        yield Problem(path=path, words=f"{text!r} is not a sha256 (64 hexadecimal digits)")


def _profile(profile: Profile, model: Model, path: str) -> Iterator[Problem]:
    if profile.engine not in ENGINES:
        known = ", ".join(ENGINES)
        yield Problem(path=f"{path}.engine", words=f"{profile.engine!r} is none of {known}")
    if model.source is None and profile.engine != SIMULATED:
        yield Problem(path="source", words=f"the engine {profile.engine!r} needs weights")
    yield from _bounds(profile, path)
    on_cpu = profile.gpus == 0 and profile.engine != SIMULATED
    if on_cpu and profile.min_memory_gb is None:
        yield Problem(
            path=f"{path}.min_memory_gb",
            words="a model on the CPU must say how much memory it needs",
        )
    yield from _parallelism(profile, path)


def _bounds(profile: Profile, path: str) -> Iterator[Problem]:
    bounds: tuple[tuple[str, float | None, float, float], ...] = (
        ("gpus", profile.gpus, 0, 1024),
        ("nodes", profile.nodes, 1, 256),
        ("replicas", profile.replicas, 0, 10_000),
        ("max_replicas", profile.max_replicas, max(profile.replicas, 1), 10_000),
        ("context", profile.context, 1, 100_000_000),
        ("concurrency", profile.concurrency, 1, 100_000),
        ("cpu_cores", profile.cpu_cores, 1, 100_000),
        ("min_memory_gb", profile.min_memory_gb, 0, 10_000_000),
        ("disk_gb", profile.disk_gb, 0, 10_000_000),
        ("ready_timeout", profile.ready_timeout, 1, 86_400),
        ("priority", profile.priority, -1000, 1000),
    )
    for name, value, least, most in bounds:
        if value is not None and not least <= value <= most:
            yield Problem(
                path=f"{path}.{name}", words=f"{value:g} is not between {least:g} and {most:g}"
            )


def _parallelism(profile: Profile, path: str) -> Iterator[Problem]:
    tensor = profile.tensor_parallel or 1
    pipeline = profile.pipeline_parallel or 1
    if min(tensor, pipeline) < 1:
        yield Problem(path=f"{path}.tensor_parallel", words="must be at least 1")
    elif tensor * pipeline > 1 and tensor * pipeline != profile.gpus * profile.nodes:
        yield Problem(
            path=f"{path}.gpus",
            words=f"tensor x pipeline parallel is {tensor * pipeline}, "
            f"gpus x nodes is {profile.gpus * profile.nodes}",
        )
    mig = any("-mig-" in name for name in profile.device_classes)
    if mig and max(profile.gpus, profile.nodes, tensor, pipeline) > 1:
        yield Problem(
            path=f"{path}.gpus",
            words="a MIG class takes one instance: gpus, nodes, tp and pp are 1",
        )


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
            yield from _sha256(f"{where}.packages[{index}].sha256", package.sha256)
        for part in (build.program, *build.libraries):
            if part.startswith("/") or ".." in part.split("/"):
                yield Problem(path=where, words=f"{part!r} must lie inside the packages")
        if build.launcher not in LAUNCHERS:
            known = " or ".join(repr(name) for name in LAUNCHERS)
            yield Problem(path=f"{where}.launcher", words=f"{build.launcher!r} is not {known}")
