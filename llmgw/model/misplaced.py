"""Settings of the cluster that stand where a service reads only what it needs to start."""

import typing
from collections.abc import Iterator, Mapping

import msgspec

from llmgw.base.errors import Unreadable
from llmgw.model.settings import Settings


def refuse_cluster_settings(
    service: type, written: object, where: str, environ: Mapping[str, str]
) -> None:
    """Refuse by name what `llmgw ctl config set` is for: nobody would follow it here.

    Args:
        service: the Struct of what the service's own file may say.
        written: what its file says, as plain values.
        where: the file, for the message.
        environ: the variables that it is started with.

    Raises:
        Unreadable: a setting of the cluster is among them.
    """
    own = typing.get_type_hints(service)
    for group, value in written.items() if isinstance(written, dict) else ():
        paths = [path for path in _paths(Settings) if path.partition(".")[0] == group]
        nested = isinstance(value, dict)
        if not paths or (group in own and (not nested or _is_mapping(own[group]))):
            continue
        named = [path for path in paths if nested and path.rpartition(".")[2] in value]
        raise _refusal(f"{where}: {named[0] if named else group}", (named or paths)[0])
    for path in _paths(Settings):
        name = path.replace(".", "_")
        variable = f"LLMGW_{name.upper()}"
        if name not in own and variable in environ:
            raise _refusal(variable, path)


def _refusal(what: str, path: str) -> Unreadable:
    return Unreadable(
        f"{what}: is a setting of the cluster and can't be set here",
        hint=f"set it for all: llmgw ctl config set {path} VALUE",
    )


def _paths(record: type, above: str = "") -> Iterator[str]:
    """Yield the dotted path of every setting."""
    for name, hint in typing.get_type_hints(record).items():
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            yield from _paths(hint, f"{above}{name}.")
        else:
            yield f"{above}{name}"


def _is_mapping(hint: object) -> bool:
    return typing.get_origin(hint) is dict
