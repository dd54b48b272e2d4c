"""What a profile must mean, beyond its shape: every problem, each with its path (PLC-2)."""

import difflib
from collections.abc import Iterator

from llmgw.model.catalog import ENGINES, LLAMACPP, SIMULATED, VLLM, Profile, Scaling
from llmgw.model.record import Problem
from llmgw.model.unread import each

_WORD_MOST = 63
_ARGUMENTS_MOST = 500
_ARGUMENT_MOST = 4096
_DAY = 86_400.0
_MIG = "-mig-"


def problems_of(profile: Profile, path: str) -> Iterator[Problem]:
    """Yield every problem of a profile; `path` says where it stands in its model."""
    yield from each(
        _name(profile, path),
        _engine(profile, path),
        *(
            _outside(f"{path}.{name}", getattr(profile, name), least, most)
            for name, least, most in _BOUNDS
        ),
        _most(profile, path),
        _memory_on_cpu(profile, path),
        _at_least_one(f"{path}.tensor_parallel", profile.tensor_parallel),
        _at_least_one(f"{path}.pipeline_parallel", profile.pipeline_parallel),
        _product(profile, path),
        _mig_instance(profile, path),
        _several_nodes(profile, path),
        _fabric(profile, path),
        _scaling(profile, path),
        _classes(profile, path),
        _labels(profile, path),
        _arguments(profile, path),
        _kv_events(profile, path),
    )


_BOUNDS: tuple[tuple[str, float, float], ...] = (
    ("gpus", 0, 1024),
    ("nodes", 1, 256),
    ("replicas", 0, 10_000),
    ("context", 1, 100_000_000),
    ("concurrency", 1, 100_000),
    ("cpu_cores", 1, 100_000),
    ("min_memory_gb", 0, 10_000_000),
    ("disk_gb", 0, 10_000_000),
    ("ready_timeout", 1, _DAY),
    ("priority", -1000, 1000),
)


def _name(profile: Profile, path: str) -> Iterator[Problem]:
    if not _is_word(profile.name):
        words = f"{profile.name!r} is not a name of at most {_WORD_MOST} characters without blanks"
        yield Problem(path=f"{path}.name", words=words)


def _engine(profile: Profile, path: str) -> Iterator[Problem]:
    if profile.engine not in ENGINES:
        near = difflib.get_close_matches(profile.engine, ENGINES, n=1)
        words = f"{profile.engine!r} is none of {', '.join(ENGINES)}"
        words += f"; did you mean {near[0]!r}?" if near else ""
        yield Problem(path=f"{path}.engine", words=words)


def _outside(path: str, value: float | None, least: float, most: float) -> Iterator[Problem]:
    if value is not None and not least <= value <= most:
        words = f"{value:g} is not between {least:g} and {most:g}"
        yield Problem(path=path, words=words)


def _most(profile: Profile, path: str) -> Iterator[Problem]:
    least = max(profile.replicas, 1)
    yield from _outside(f"{path}.max_replicas", profile.max_replicas, least, 10_000)


def _memory_on_cpu(profile: Profile, path: str) -> Iterator[Problem]:
    on_cpu = profile.gpus == 0 and profile.engine != SIMULATED
    if on_cpu and profile.min_memory_gb is None:
        words = "a model on the CPU must say how much memory it needs"
        yield Problem(path=f"{path}.min_memory_gb", words=words)


def _at_least_one(path: str, count: int | None) -> Iterator[Problem]:
    if count is not None and count < 1:
        yield Problem(path=path, words="must be at least 1")


def _product(profile: Profile, path: str) -> Iterator[Problem]:
    tensor, pipeline = _parallel(profile)
    product = tensor * pipeline
    if min(tensor, pipeline) >= 1 and 1 < product != profile.gpus * profile.nodes:
        yield Problem(
            path=f"{path}.gpus",
            words=f"tensor x pipeline parallel is {product}, "
            f"gpus x nodes is {profile.gpus * profile.nodes}",
        )


def _mig_instance(profile: Profile, path: str) -> Iterator[Problem]:
    mig = any(_MIG in name for name in profile.device_classes)
    if mig and max(profile.gpus, profile.nodes, *_parallel(profile)) > 1:
        words = "a MIG class takes one instance: gpus, nodes, tp and pp are 1"
        yield Problem(path=f"{path}.gpus", words=words)


def _parallel(profile: Profile) -> tuple[int, int]:
    """Return how many parts tensors are cut into, and how many stages there are."""
    tensor, pipeline = profile.tensor_parallel, profile.pipeline_parallel
    return 1 if tensor is None else tensor, 1 if pipeline is None else pipeline


def _several_nodes(profile: Profile, path: str) -> Iterator[Problem]:
    if profile.nodes > 1 and profile.engine == LLAMACPP:
        yield Problem(path=f"{path}.nodes", words="llama.cpp runs on one node")
    elif profile.nodes > 1 and profile.gpus == 0:
        yield Problem(path=f"{path}.nodes", words="a model on the CPU runs on one node: set gpus")


def _fabric(profile: Profile, path: str) -> Iterator[Problem]:
    if profile.fabric is not None and not _is_word(profile.fabric):
        yield Problem(path=f"{path}.fabric", words=f"{profile.fabric!r} is not a fabric's name")


def _scaling(profile: Profile, path: str) -> Iterator[Problem]:
    scaling = profile.scaling
    if scaling is None:
        return
    yield from each(
        *(
            _outside(f"{path}.scaling.{name}", getattr(scaling, name), least, most)
            for name, least, most in _SCALING_BOUNDS
        ),
        _most_by_load(profile, scaling, path),
    )


_SCALING_BOUNDS: tuple[tuple[str, float, float], ...] = (
    ("in_flight", 1, 1_000_000),
    ("queued", 1, 1_000_000),
    ("tokens_per_second", 0.001, 1e9),
    ("window", 0, _DAY),
    ("down_window", 0, _DAY),
    ("idle_stop", 1, 30 * _DAY),
)


def _most_by_load(profile: Profile, scaling: Scaling, path: str) -> Iterator[Problem]:
    if profile.max_replicas is None and _by_load(scaling):
        words = "is needed for scaling by load: how many replicas there may be at most"
        yield Problem(path=f"{path}.max_replicas", words=words)


def _by_load(scaling: Scaling) -> bool:
    rules = (scaling.in_flight, scaling.queued, scaling.tokens_per_second)
    return any(rule is not None for rule in rules)


def _classes(profile: Profile, path: str) -> Iterator[Problem]:
    for name in profile.device_classes:
        if not _is_word(name):
            words = f"{name!r} is not a class of devices, as `llmgw ctl nodes` names them"
            yield Problem(path=f"{path}.device_classes", words=words)


def _labels(profile: Profile, path: str) -> Iterator[Problem]:
    for label, value in profile.node_selector.items():
        if not _is_word(label) or not value.isprintable():
            yield Problem(path=f"{path}.node_selector", words=f"{label!r} is not a label")


def _arguments(profile: Profile, path: str) -> Iterator[Problem]:
    if len(profile.arguments) > _ARGUMENTS_MOST:
        yield Problem(path=f"{path}.arguments", words=f"more than {_ARGUMENTS_MOST}")
    for number, argument in enumerate(profile.arguments):
        if "\0" in argument or len(argument) > _ARGUMENT_MOST:
            words = f"at most {_ARGUMENT_MOST} characters, and no NUL"
            yield Problem(path=f"{path}.arguments[{number}]", words=words)


def _kv_events(profile: Profile, path: str) -> Iterator[Problem]:
    if profile.kv_events and profile.engine != VLLM:
        words = f"{profile.engine!r} tells nothing of its cache; only {VLLM} does"
        yield Problem(path=f"{path}.kv_events", words=words)


def _is_word(text: str) -> bool:
    return 0 < len(text) <= _WORD_MOST and text.isprintable() and " " not in text
