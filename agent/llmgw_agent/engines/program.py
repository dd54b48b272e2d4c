"""Which program runs a shard, and what its command line begins with."""

from dataclasses import dataclass
from pathlib import Path

from llmgw.base.errors import Refused
from llmgw_agent.engines.install import Installation
from llmgw_agent.engines.seen import name_of


@dataclass(frozen=True, slots=True)
class Program:
    """An engine's program, the directories that its loader needs, and its version."""

    path: Path
    libraries: tuple[Path, ...] = ()
    version: str | None = None
    launched: tuple[str, ...] = ()
    """What its command line begins with where `path` is a library, which a launcher runs."""

    @property
    def start(self) -> tuple[str, ...]:
        """Return what its command line begins with."""
        return self.launched or (str(self.path),)


def program_of(found: Installation) -> Program:
    """Return the program of an engine that is installed."""
    libraries = tuple(Path(library) for library in found.libraries)
    launched = () if found.start == (found.path,) else found.start
    return Program(
        path=Path(found.path), libraries=libraries, version=found.version, launched=launched
    )


def own_program(own: Installation, version: str | None) -> Program:
    """Return the program of an operator's own engine.

    Raises:
        Refused: another version is asked for than it has.
    """
    if version is not None and own.version is not None and own.version != version:
        raise Refused(
            f"{name_of(own.engine)} on this node is the operator's own {own.version}, "
            f"the profile asks for {version}"
        )
    return program_of(own)
