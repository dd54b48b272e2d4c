"""What is known of this node's engines: how looks, installs and doubts add up. No I/O."""

from collections.abc import Mapping

from llmgw.base.units import show_bytes
from llmgw.model.node import FAILED, INSTALLED, InstalledEngine
from llmgw.model.shard import Progress
from llmgw_agent.engines.install import NAMES, Installation
from llmgw_agent.engines.install_side import Broken, Seen

NOTHING = Seen(running=(), broken=())


def merged(before: Seen, now: Seen, *, run: bool) -> Seen:
    """Return what is known after another look.

    An engine that was only seen to be there keeps what its last run proved, for better or worse;
    one that did not end in time keeps it too, since a slow machine proves nothing.
    """
    ran = {found.place: found for found in before.running}
    did_not = {found.place: found for found in before.broken}
    running = [found if run else ran.get(found.place, found) for found in now.running]
    broken = list(now.broken)
    if not run:
        broken += [did_not[found.place] for found in running if found.place in did_not]
        running = [found for found in running if found.place not in did_not]
    slow = [ran[found.place] for found in broken if found.slow and found.place in ran]
    kept = {found.place for found in slow}
    return Seen(
        running=tuple(running + slow),
        broken=tuple(found for found in broken if found.place not in kept),
    )


def installed_since(before: Seen | None, now: Seen | None) -> tuple[Installation, ...]:
    """Return what was installed while a look was under way, which the look may have missed."""
    if before is None or now is None:
        return ()
    known = {found.place for found in before.running}
    return tuple(found for found in now.running if found.place not in known)


def with_new(seen: Seen, new: Installation) -> Seen:
    """Return what is known after an install."""
    return Seen(
        running=(*(found for found in seen.running if found.place != new.place), new),
        broken=tuple(found for found in seen.broken if found.place != new.place),
    )


def without(seen: Seen, distrusted: Mapping[str, str]) -> Seen:
    """Return what is known, less the places that were found to compute nothing."""
    bad = [found for found in seen.running if found.place in distrusted]
    if not bad:
        return seen
    broken = [
        Broken(
            engine=found.engine,
            version=found.version,
            place=found.place,
            words=distrusted[found.place],
            by_operator=False,
        )
        for found in bad
    ]
    running = tuple(found for found in seen.running if found.place not in distrusted)
    return Seen(running=running, broken=(*seen.broken, *broken))


def sentence(seen: Seen) -> str:
    """Return what runs and what does not, in one line."""
    names = [f"{name_of(found.engine)} {found.version or ''}".strip() for found in seen.running]
    broken = [f"{name_of(found.engine)} does not run: {found.words}" for found in seen.broken]
    return ", ".join(names + broken) or "no engine is installed"


def as_installed(found: Installation) -> InstalledEngine:
    """Return an engine that runs, as it is reported."""
    return InstalledEngine(
        engine=found.engine,
        version=found.version,
        state=INSTALLED,
        path=found.path,
        by_operator=found.by_operator,
        back_ends=found.back_ends,
    )


def as_broken(found: Broken) -> InstalledEngine:
    """Return an engine that does not run, as it is reported."""
    return InstalledEngine(
        engine=found.engine,
        version=found.version,
        state=FAILED,
        words=found.words,
        path=found.place,
        by_operator=found.by_operator,
    )


def name_of_version(engine: str, version: str | None) -> str:
    """Return what people call an engine of a version."""
    return f"{name_of(engine)} {version}" if version is not None else name_of(engine)


def name_of(engine: str) -> str:
    """Return what people call an engine."""
    return NAMES.get(engine, engine)


def how_far(progress: Progress) -> str:
    """Return a step as words alone: an engine's state has no field for bytes."""
    if progress.done_bytes is None:
        return progress.words
    return f"{progress.words} ({show_bytes(progress.done_bytes)})"
