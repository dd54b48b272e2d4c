"""`llmgw ctl model edit|scale|resources|restart`: one change to a model of the catalog.

Each reads the model, changes it and puts it back under the version that it read: a change that
somebody else made meanwhile is refused, never undone.
"""

import os
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeGuard

import msgspec
import typer

from llmgw.base.errors import LlmgwError, NotFound, Refused, Unreadable, Usage
from llmgw.cli import session, show
from llmgw.cli.options import DryRun, Yes
from llmgw.cli.output import agreed, confirm, note, say
from llmgw.model.catalog import CatalogEntry, Model, Profile
from llmgw.model.replica import LEAVING, OVER, Replica
from llmgw.model.shard import READY

Name = Annotated[str, typer.Argument(help="The model's public name.")]
ProfileName = Annotated[
    str, typer.Option("--profile", help="Which profile; needed where there are several.")
]


def edit(name: Name, dry_run: DryRun = False) -> None:
    """Edit a model as YAML in $EDITOR; nothing is changed until it is sound."""
    from llmgw.model.written import read_yaml, to_yaml

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
            _put(entry, _same_name(read_yaml(after, Model, str(kept)), name), dry_run=dry_run)
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
    replicas: Annotated[int, typer.Argument(min=0, help="Wanted at least; 0 stops it.")],
    most: Annotated[
        int | None, typer.Option("--max", min=1, help="Wanted at most, when load asks for more.")
    ] = None,
    profile: ProfileName = "",
    dry_run: DryRun = False,
) -> None:
    """Say how many replicas of a model are wanted."""
    entry = session.get(f"/models/{name}", CatalogEntry)
    one = _profile(entry.model, profile)
    upper = most if most is not None else one.max_replicas
    if upper is not None and most is None:
        upper = max(upper, replicas, 1)
    changed = msgspec.structs.replace(one, replicas=replicas, max_replicas=upper)
    _put(entry, _with(entry.model, changed), dry_run=dry_run)


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
    if changed != one and not dry_run and entry.model.roll_when_stale:
        confirm(_replaced(name), name, yes=yes)
    _put(entry, _with(entry.model, changed), dry_run=dry_run)


def restart(name: Name, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Replace every replica of a model by one that is started anew."""
    entry = session.get(f"/models/{name}", CatalogEntry)
    if not entry.model.roll_when_stale:
        raise Refused(
            f"{name}: its replicas are not replaced when they are stale",
            hint=f"set roll_when_stale: true: llmgw ctl model edit {shlex.quote(name)}",
        )
    words = _replaced(name)
    if not agreed(words, name, yes=yes, dry_run=dry_run):
        return
    generation = entry.model.generation + 1
    _put(entry, msgspec.structs.replace(entry.model, generation=generation), dry_run=False)


def _replaced(name: str) -> str:
    found = session.get("/replicas", tuple[Replica, ...])
    here = [r for r in found if r.model == name and r.state not in OVER | LEAVING]
    ready = sum(1 for one in here if one.state == READY)
    return (
        f"{name}: {show.count(len(here), 'replica')} ({ready} ready) will be replaced, "
        "each once its successor is ready where there is room for both"
    )


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


def _put(entry: CatalogEntry, model: Model, *, dry_run: bool) -> None:
    from llmgw.model.catalog_check import check_model

    name = model.name
    if problems := check_model(model):
        for problem in problems:
            note(f"{name}: {problem.path}: {problem.words}")
        raise Unreadable(f"{name}: {show.count(len(problems), 'problem')}, nothing was changed")
    lines = [f"{name}: {line}" for line in changes(entry.model, model)]
    if not lines:
        note(f"{name}: is so already; nothing was changed")
        return
    if dry_run:
        for line in lines:
            note(line)
        note(f"would become version {entry.version + 1}; nothing was changed")
        return
    body = msgspec.to_builtins(model)
    answer = session.connect().put(f"/models/{name}", body, version=entry.version)
    new = session.typed(answer, CatalogEntry, "model")
    for line in lines:
        note(line)
    say(f"{name} is version {new.version}")


def changes(before: Model, after: Model) -> list[str]:
    """Return what differs between two models, a line a field: its path, from, to."""
    return list(_differences("", msgspec.to_builtins(before), msgspec.to_builtins(after)))


def _differences(path: str, before: object, after: object) -> list[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        keys = dict.fromkeys((*before, *after))
        within = [
            _differences(f"{path}.{key}" if path else str(key), before.get(key), after.get(key))
            for key in keys
        ]
        return [line for lines in within for line in lines]
    if _many(before) and _many(after) and len(before) == len(after):
        within = [
            _differences(f"{path}[{number}]", one, other)
            for number, (one, other) in enumerate(zip(before, after, strict=True))
        ]
        return [line for lines in within for line in lines]
    if before == after:
        return []
    return [f"{path}: {_text(before)} -> {_text(after)}"]


def _many(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, list | tuple)


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


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
