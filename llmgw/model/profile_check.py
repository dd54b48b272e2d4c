"""What a profile must mean, beyond its shape: every problem, each with its path (PLC-2)."""

from collections.abc import Iterator

from llmgw.model.catalog import ENGINES, LLAMACPP, SIMULATED, VLLM, Profile, Scaling
from llmgw.model.record import Problem

_WORD_MOST = 63
_ARGUMENTS_MOST = 500
_ARGUMENT_MOST = 4096
_DAY = 86_400.0
_MIG = "-mig-"


def problems_of(profile: Profile, path: str) -> Iterator[Problem]:
    """Yield every problem of a profile; `path` says where it stands in its model."""
    if not _is_word(profile.name):
        words = f"{profile.name!r} is not a name of at most {_WORD_MOST} characters without blanks"
        yield Problem(path=f"{path}.name", words=words)
    if profile.engine not in ENGINES:
        known = ", ".join(ENGINES)
        yield Problem(path=f"{path}.engine", words=f"{profile.engine!r} is none of {known}")
    yield from _bounds(profile, path)
    on_cpu = profile.gpus == 0 and profile.engine != SIMULATED
    if on_cpu and profile.min_memory_gb is None:
        yield Problem(
            path=f"{path}.min_memory_gb",
            words="a model on the CPU must say how much memory it needs",
        )
    yield from _parallelism(profile, path)
    yield from _several_nodes(profile, path)
    yield from _scaling(profile, path)
    yield from _texts(profile, path)
    if profile.kv_events and profile.engine != VLLM:
        words = f"{profile.engine!r} tells nothing of its cache; only {VLLM} does"
        yield Problem(path=f"{path}.kv_events", words=words)


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
        ("ready_timeout", profile.ready_timeout, 1, _DAY),
        ("priority", profile.priority, -1000, 1000),
    )
    yield from _outside(bounds, path)


def _outside(
    bounds: tuple[tuple[str, float | None, float, float], ...], path: str
) -> Iterator[Problem]:
    for name, value, least, most in bounds:
        if value is not None and not least <= value <= most:
            words = f"{value:g} is not between {least:g} and {most:g}"
            yield Problem(path=f"{path}.{name}", words=words)


def _parallelism(profile: Profile, path: str) -> Iterator[Problem]:
    tensor = 1 if profile.tensor_parallel is None else profile.tensor_parallel
    pipeline = 1 if profile.pipeline_parallel is None else profile.pipeline_parallel
    if tensor < 1:
        yield Problem(path=f"{path}.tensor_parallel", words="must be at least 1")
    if pipeline < 1:
        yield Problem(path=f"{path}.pipeline_parallel", words="must be at least 1")
    product = tensor * pipeline
    if min(tensor, pipeline) >= 1 and 1 < product != profile.gpus * profile.nodes:
        yield Problem(
            path=f"{path}.gpus",
            words=f"tensor x pipeline parallel is {product}, "
            f"gpus x nodes is {profile.gpus * profile.nodes}",
        )
    mig = any(_MIG in name for name in profile.device_classes)
    if mig and max(profile.gpus, profile.nodes, tensor, pipeline) > 1:
        yield Problem(
            path=f"{path}.gpus",
            words="a MIG class takes one instance: gpus, nodes, tp and pp are 1",
        )


def _several_nodes(profile: Profile, path: str) -> Iterator[Problem]:
    if profile.nodes > 1 and profile.engine == LLAMACPP:
        yield Problem(path=f"{path}.nodes", words="llama.cpp runs on one node")
    elif profile.nodes > 1 and profile.gpus == 0:
        yield Problem(path=f"{path}.nodes", words="a model on the CPU runs on one node: set gpus")
    if profile.fabric is not None and not _is_word(profile.fabric):
        yield Problem(path=f"{path}.fabric", words=f"{profile.fabric!r} is not a fabric's name")


def _scaling(profile: Profile, path: str) -> Iterator[Problem]:
    scaling = profile.scaling
    if scaling is None:
        return
    where = f"{path}.scaling"
    yield from _outside(
        (
            ("in_flight", scaling.in_flight, 1, 1_000_000),
            ("queued", scaling.queued, 1, 1_000_000),
            ("tokens_per_second", scaling.tokens_per_second, 0.001, 1e9),
            ("window", scaling.window, 0, _DAY),
            ("down_window", scaling.down_window, 0, _DAY),
            ("idle_stop", scaling.idle_stop, 1, 30 * _DAY),
        ),
        where,
    )
    if _by_load(scaling) and profile.max_replicas is None:
        words = "is needed for scaling by load: how many replicas there may be at most"
        yield Problem(path=f"{path}.max_replicas", words=words)


def _by_load(scaling: Scaling) -> bool:
    rules = (scaling.in_flight, scaling.queued, scaling.tokens_per_second)
    return any(rule is not None for rule in rules)


def _texts(profile: Profile, path: str) -> Iterator[Problem]:
    for name in profile.device_classes:
        if not _is_word(name):
            words = f"{name!r} is not a class of devices, as `llmgw ctl nodes` names them"
            yield Problem(path=f"{path}.device_classes", words=words)
    for label, value in profile.node_selector.items():
        if not _is_word(label) or not value.isprintable():
            yield Problem(path=f"{path}.node_selector", words=f"{label!r} is not a label")
    if len(profile.arguments) > _ARGUMENTS_MOST:
        yield Problem(path=f"{path}.arguments", words=f"more than {_ARGUMENTS_MOST}")
    for number, argument in enumerate(profile.arguments):
        if "\0" in argument or len(argument) > _ARGUMENT_MOST:
            words = f"at most {_ARGUMENT_MOST} characters, and no NUL"
            yield Problem(path=f"{path}.arguments[{number}]", words=words)


def _is_word(text: str) -> bool:
    return 0 < len(text) <= _WORD_MOST and text.isprintable() and " " not in text
