"""Before anything is launched: is it possible here, and is everything there for it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from llmgw.base.errors import LlmgwError, NotFound, Unreadable
from llmgw.base.units import show_bytes
from llmgw.model.device import Device
from llmgw.model.record import Problem
from llmgw.model.shard import BAD_FILE, INVALID, NO_ENGINE, NO_WEIGHTS, Progress, ShardSpec
from llmgw_agent.engines.adapter import Adapter, NodeFacts, Program
from llmgw_agent.supervise.means import Means, ShardFailed
from llmgw_agent.supervise.shard import Shard

_HELP_LIMIT = 30.0
_HELP_MOST = 512 << 10
"""Bytes of a program's help; llama-server's has some tens of thousands."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that a launch needs."""

    adapter: Adapter
    program: Program
    options: frozenset[str] | None
    devices: tuple[Device, ...]
    weights: Path | None = None


@dataclass(slots=True)
class OptionsKnown:
    """The options that each program was found to know; each is asked once."""

    _known: dict[tuple[Path, str | None], frozenset[str] | None] = field(default_factory=dict)

    async def of(self, adapter: Adapter, program: Program, means: Means) -> frozenset[str] | None:
        """Return a program's options; None when it can't be asked.

        Raises:
            ShardFailed: it can't be started at all.
        """
        place = (program.path, program.version)
        if adapter.help_arguments is None:
            return None
        if place not in self._known:
            self._known[place] = await _ask(adapter, program, means)
        return self._known[place]


async def prepare(shard: Shard, means: Means, known: OptionsKnown) -> Prepared:
    """Check a shard against this node and this engine, then have its weights at hand.

    Raises:
        ShardFailed: with every problem found; nothing was launched.
    """
    adapter = shard.adapter
    if adapter is None:
        raise ShardFailed(NO_ENGINE, f"this agent can't run the engine {shard.spec.engine!r}")
    facts = means.facts()
    program, missing = _program(shard.spec, means)
    options = None if program is None else await known.of(adapter, program, means)
    problems = [*check_node(shard.spec, facts), *adapter.check(shard.spec, options)]
    words = [*missing, *(f"{problem.path}: {problem.words}" for problem in problems)]
    if program is None or words:
        raise ShardFailed(NO_ENGINE if missing else INVALID, "; ".join(words))
    devices = tuple(d for d in facts.devices or () if d.uuid in shard.spec.devices)
    prepared = Prepared(adapter=adapter, program=program, options=options, devices=devices)
    if shard.spec.source is None:
        return prepared
    return Prepared(
        adapter=adapter,
        program=program,
        options=options,
        devices=devices,
        weights=await _weights(shard, adapter, means),
    )


def check_node(spec: ShardSpec, facts: NodeFacts) -> tuple[Problem, ...]:
    """Return what a spec asks of the node that it lacks; what nobody knows is no problem."""
    return tuple(_node_problems(spec, facts))


def _node_problems(spec: ShardSpec, facts: NodeFacts) -> Iterator[Problem]:
    if facts.devices is not None:
        known = {device.uuid: device for device in facts.devices}
        for uuid in spec.devices:
            if uuid not in known:
                yield Problem(path="devices", words=f"{uuid} is not on this node")
            elif reasons := known[uuid].unhealthy:
                yield Problem(path="devices", words=f"{uuid}: {'; '.join(reasons)}")
    if len(set(spec.devices)) != len(spec.devices):
        yield Problem(path="devices", words="a device is named twice")
    if facts.cpus is not None and (spec.cpu_cores or 0) > facts.cpus:
        yield Problem(path="cpu_cores", words=f"{facts.cpus} cores, needs {spec.cpu_cores}")
    if facts.memory_bytes is not None and (spec.memory_bytes or 0) > facts.memory_bytes:
        have, needs = show_bytes(facts.memory_bytes), show_bytes(spec.memory_bytes)
        yield Problem(path="memory_bytes", words=f"{have} of memory, needs {needs}")


def _program(spec: ShardSpec, means: Means) -> tuple[Program | None, tuple[str, ...]]:
    try:
        return means.programs.program(spec.engine, spec.engine_version), ()
    except LlmgwError as error:
        return None, (error.message,)


async def _ask(adapter: Adapter, program: Program, means: Means) -> frozenset[str] | None:
    environment = {name: means.environ[name] for name in ("PATH",) if name in means.environ}
    environment["LD_LIBRARY_PATH"] = ":".join(str(path) for path in program.libraries)
    try:
        done = await means.processes.run(
            [*program.start, *(adapter.help_arguments or ())],
            timeout=_HELP_LIMIT,
            most=_HELP_MOST,
            env=environment,
        )
    except NotFound as error:
        raise ShardFailed(NO_ENGINE, error.message) from error
    except (LlmgwError, OSError):
        return None
    lines = f"{done.out}\n{done.err}".splitlines()
    if done.rc != 0 and (cause := adapter.cause_of(lines, done.rc)) is not None:
        raise ShardFailed(*cause)
    return adapter.read_options(done.out)


async def _weights(shard: Shard, adapter: Adapter, means: Means) -> Path:
    source = shard.spec.source
    if source is None:
        raise ShardFailed(NO_WEIGHTS, "no source of weights")
    shard.note_progress(Progress(words="fetching weights"))
    try:
        place = await means.weights.fetch(source, shard.note_progress)
        names = () if place is None else means.files.names(place)
        found = None if place is None else adapter.weights_file(place, names)
    except Unreadable as error:
        raise ShardFailed(BAD_FILE, error.message) from error
    except LlmgwError as error:
        raise ShardFailed(NO_WEIGHTS, error.message) from error
    except OSError as error:
        raise ShardFailed(NO_WEIGHTS, f"the weights can't be had: {error}") from error
    if found is None:
        raise ShardFailed(NO_WEIGHTS, "nothing came of fetching the weights")
    return found
