"""What a written model must mean, beyond its shape: every problem, each with its path (PLC-1)."""

from collections.abc import Iterator, Sequence

from llmgw.model.catalog import (
    DISCONNECT_POLICIES,
    ON_RETURN,
    SIMULATED,
    Adapter,
    Disconnect,
    Model,
    Profile,
)
from llmgw.model.profile_check import problems_of
from llmgw.model.record import Problem
from llmgw.model.source_check import check_name, check_source
from llmgw.model.unread import each

_DAYS_30 = 30 * 86_400.0


def check_model(model: Model) -> tuple[Problem, ...]:
    """Return every problem of a model, each with its path; empty when there is none."""
    return tuple(_model(model))


def _model(model: Model) -> Iterator[Problem]:
    yield from each(
        check_name("name", model.name),
        _source(model),
        _adapters(model.adapters, model),
        *_disconnect(model.disconnect),
        _generation(model.generation),
        _profiles(model),
    )


def _source(model: Model) -> Iterator[Problem]:
    if model.source is not None:
        yield from check_source("source", model.source, allow_pickle=model.allow_pickle)


def _generation(count: int) -> Iterator[Problem]:
    if count < 0:
        yield Problem(path="generation", words="counts upwards from 0")


def _profiles(model: Model) -> Iterator[Problem]:
    if not model.profiles:
        yield Problem(path="profiles", words="at least one profile is needed")
    seen: set[str] = set()
    for number, profile in enumerate(model.profiles):
        path = f"profiles[{number}]"
        yield from each(
            _twice(f"{path}.name", profile, seen),
            _without_weights(model, profile),
            problems_of(profile, path),
        )


def _without_weights(model: Model, profile: Profile) -> Iterator[Problem]:
    if model.source is None and profile.engine != SIMULATED:
        yield Problem(path="source", words=f"the engine {profile.engine!r} needs weights")


def _twice(path: str, profile: Profile, seen: set[str]) -> Iterator[Problem]:
    """Yield that a name is there twice; note it among those seen."""
    if profile.name in seen:
        yield Problem(path=path, words=f"{profile.name!r} is there twice")
    seen.add(profile.name)


def _adapters(adapters: Sequence[Adapter], model: Model) -> Iterator[Problem]:
    """Adapters share the names of models: each is asked for by its own (ENG-12)."""
    seen: set[str] = set()
    for number, adapter in enumerate(adapters):
        yield from each(
            _adapter_name(f"adapters[{number}].name", adapter, model, seen),
            _adapter_source(f"adapters[{number}].source", adapter, model),
        )


def _adapter_name(path: str, adapter: Adapter, model: Model, seen: set[str]) -> Iterator[Problem]:
    yield from check_name(path, adapter.name)
    if adapter.name in seen or adapter.name == model.name:
        words = f"{adapter.name!r} is the name of something else here"
        yield Problem(path=path, words=words)
    seen.add(adapter.name)


def _adapter_source(path: str, adapter: Adapter, model: Model) -> Iterator[Problem]:
    yield from check_source(path, adapter.source, allow_pickle=model.allow_pickle)


def _disconnect(said: Disconnect) -> tuple[Iterator[Problem], ...]:
    return _policy(said), _on_return(said), _after(said)


def _policy(said: Disconnect) -> Iterator[Problem]:
    if said.policy not in DISCONNECT_POLICIES:
        words = f"{said.policy!r} is none of {', '.join(DISCONNECT_POLICIES)}"
        yield Problem(path="disconnect.policy", words=words)


def _on_return(said: Disconnect) -> Iterator[Problem]:
    if said.on_return not in ON_RETURN:
        words = f"{said.on_return!r} is none of {', '.join(ON_RETURN)}"
        yield Problem(path="disconnect.on_return", words=words)


def _after(said: Disconnect) -> Iterator[Problem]:
    if not 0 <= said.after <= _DAYS_30:
        words = f"{said.after:g} is not between 0 and {_DAYS_30:g} seconds"
        yield Problem(path="disconnect.after", words=words)
