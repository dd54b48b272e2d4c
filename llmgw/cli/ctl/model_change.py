"""`llmgw ctl model edit|scale|resources|restart`: one change to a model of the catalog.

Each reads the model, changes it and puts it back under the version that it read: a change that
somebody else made meanwhile is refused, never undone.
"""

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from llmgw.base.errors import Conflict, LlmgwError, NotFound, Refused, Usage
from llmgw.cli import session, show
from llmgw.cli.ctl import ends
from llmgw.cli.modelfile import read_model, unsound
from llmgw.cli.options import DryRun, Yes
from llmgw.cli.output import confirm, note, say
from llmgw.model.catalog import CatalogEntry, Model, Profile
from llmgw.model.catalog_check import check_model
from llmgw.model.changes import changes

Name = Annotated[str, typer.Argument(help="The model's public name.")]
ProfileName = Annotated[
    str, typer.Option("--profile", help="Which profile; needed where there are several.")
]


def edit(name: Name, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Edit a model as YAML in $EDITOR; nothing is changed until it is sound."""
    from llmgw.model.written import to_yaml

    entry = session.get(f"/models/{name}", CatalogEntry)
    before = to_yaml(entry.model)
    kept = Path(tempfile.mkdtemp(prefix="llmgw-edit-")) / "model.yaml"
    kept.write_text(before, encoding="utf-8")
    _open_editor(kept)
    after = kept.read_text(encoding="utf-8", errors="replace")
    if after == before or not after.strip():
        note(f"{name}: nothing was changed")
    else:
        try:
            model = _same_name(read_model(after, str(kept)), name)
            put(entry, model, expected=entry.version, yes=yes, dry_run=dry_run)
        except LlmgwError:
            note(f"what you wrote is kept: {kept}")
            raise
        if dry_run:
            note(f"what you wrote is kept: {kept}")
            return
    kept.unlink()
    kept.parent.rmdir()


def _same_name(model: Model, name: str) -> Model:
    """Return the model if it is still called so.

    Raises:
        Usage: it has another name.
    """
    if model.name != name:
        raise Usage(
            f"the name is {model.name!r}, not {name!r}",
            hint="a model is renamed by `llmgw ctl model add` and `llmgw ctl model rm`",
        )
    return model


def scale(
    name: Name,
    replicas: Annotated[
        int, typer.Argument(min=0, help="Wanted at least; 0: only when asked, or none.")
    ],
    most: Annotated[
        int | None, typer.Option("--max", min=1, help="Wanted at most, when load asks for more.")
    ] = None,
    profile: ProfileName = "",
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Say how many replicas of a model are wanted.

    With 0 a request starts the first one where there is a most, said now or before; without it the
    model is stopped.
    """
    entry = session.get(f"/models/{name}", CatalogEntry)
    one = _profile(entry.model, profile)
    upper = most if most is not None else one.max_replicas
    if upper is not None and most is None:
        upper = max(upper, replicas, 1)
    changed = msgspec.structs.replace(one, replicas=replicas, max_replicas=upper)
    model = _with(entry.model, changed)
    if put(entry, model, expected=entry.version, yes=yes, dry_run=dry_run):
        told: Callable[[Profile], str] = import_module("llmgw.plan.ondemand").told
        if words := told(changed):
            note(f"{name}: {words}")


def resources(
    name: Name,
    memory: Annotated[
        float | None, typer.Option("--memory", min=0, help="Host memory in GB of 10^9 bytes.")
    ] = None,
    cores: Annotated[int | None, typer.Option("--cores", min=1, help="CPU cores.")] = None,
    profile: ProfileName = "",
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Show what a model reserves and what its replicas use; set it with --memory, --cores."""
    entry = session.get(f"/models/{name}", CatalogEntry)
    if memory is None and cores is None:
        from llmgw.cli.ctl import model_use

        model_use.show(entry.model)
        return
    one = _profile(entry.model, profile)
    changed = msgspec.structs.replace(
        one,
        min_memory_gb=one.min_memory_gb if memory is None else memory,
        cpu_cores=one.cpu_cores if cores is None else cores,
    )
    model = _with(entry.model, changed)
    put(entry, model, expected=entry.version, yes=yes, dry_run=dry_run)


def restart(name: Name, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Replace every replica of a model by one that is started anew."""
    entry = session.get(f"/models/{name}", CatalogEntry)
    if not entry.model.roll_when_stale:
        raise Refused(
            f"{name}: its replicas are not replaced when they are stale",
            hint=f"set roll_when_stale: true: llmgw ctl model edit {shlex.quote(name)}",
        )
    model = msgspec.structs.replace(entry.model, generation=entry.model.generation + 1)
    put(entry, model, expected=entry.version, yes=yes, dry_run=dry_run)


def _profile(model: Model, name: str) -> Profile:
    names = [one.name for one in model.profiles]
    if not name and len(names) == 1:
        return model.profiles[0]
    if not name:
        raise Usage(
            f"{model.name} has {len(names)} profiles: {', '.join(names)}",
            hint="name one with --profile",
        )
    for one in model.profiles:
        if one.name == name:
            return one
    raise NotFound(f"{model.name} has no profile {name!r}", hint=f"it has {', '.join(names)}")


def _with(model: Model, changed: Profile) -> Model:
    profiles = tuple(changed if one.name == changed.name else one for one in model.profiles)
    return msgspec.structs.replace(model, profiles=profiles)


def put(
    entry: CatalogEntry | None,
    model: Model,
    *,
    expected: int | None,
    yes: bool,
    dry_run: bool,
) -> bool:
    """Put a model into the catalog once what it ends is agreed to, or say what would change.

    Args:
        entry: what the catalog has; None: it has none of that name.
        model: what is wanted from now on.
        expected: the version that it must be at; None: that of `entry`, or new.
        yes: do not ask.
        dry_run: change nothing.

    Returns:
        False where nothing changes.
    """
    name = model.name
    if problems := check_model(model):
        raise unsound(name, problems)
    there = entry.version if entry is not None else 0
    if expected not in (None, there):
        by = f", {last_changed(entry)}" if entry is not None else ""
        raise Conflict(
            f"{name}: the catalog has version {there}{by}; not {expected}",
            hint=f"see what is there: llmgw ctl model show {shlex.quote(name)}",
        )
    lines = [f"{name}: {line}" for line in changes(entry.model, model)] if entry else []
    if entry is not None and not lines:
        note(f"{name}: is so already, as version {there}; nothing was changed")
        return False
    takes, ending = ends.foreseen(model)
    for line in lines:
        note(line)
    if dry_run:
        if takes:
            note(f"{name}: {takes}")
        for line in ending:
            note(line)
        note(f"{name} would {_become(there)}; nothing was changed")
        return True
    if ending:
        confirm("\n".join(ending), name, yes=yes)
    try:
        answer = session.connect().put(f"/models/{name}", msgspec.to_builtins(model), version=there)
    except Conflict:
        _tell_meanwhile(entry, name)
        raise
    new = session.typed(answer, CatalogEntry, "model")
    say(f"{name} is version {new.version}")
    return True


def _tell_meanwhile(read: CatalogEntry | None, name: str) -> None:
    """Say what somebody else changed since an entry was read."""
    try:
        now = session.get(f"/models/{name}", CatalogEntry)
    except LlmgwError:
        return  # the conflict is told anyhow
    for line in changes(read.model, now.model) if read is not None else ():
        note(f"{name}: meanwhile {now.changed_by} changed {line}")


def last_changed(entry: CatalogEntry) -> str:
    """Return who wrote an entry, and how long ago."""
    return f"changed by {entry.changed_by} {show.age(entry.changed, session.now())} ago"


def _become(there: int) -> str:
    return f"become version {there + 1}" if there else "be added"


def _open_editor(path: Path) -> None:
    """Open a file in the editor that the environment names.

    Raises:
        Usage: there is none.
        Refused: it ended with an error: what was written is not taken.
    """
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        done = subprocess.run([*shlex.split(editor), str(path)], check=False)
    except (OSError, ValueError) as error:
        raise Usage(
            f"the editor {editor!r} can't be started", hint="name one in $EDITOR"
        ) from error
    if done.returncode != 0:
        raise Refused(
            f"the editor {editor!r} ended with status {done.returncode}; nothing was changed",
            hint=f"what you wrote is kept: {path}",
        )
