"""How a change is written down: values as JSON text, secrets hidden, differences by path."""

import re
from collections.abc import Iterator, Mapping

import msgspec

from llmgw.base.secrets import HIDDEN, hide

_FLAG = re.compile(r"--?([A-Za-z0-9][\w-]*)(=.*)?", re.DOTALL)
_USERINFO = re.compile(r"(://[^/\s@:]*):[^@/\s]+@")


def as_json(record: object, *, hidden: frozenset[str] = frozenset()) -> str:
    """Return a record as JSON text with secrets hidden, and what lies under the `hidden` names."""
    return _text(_shown(msgspec.to_builtins(record), "", hidden))


def leaves(record: object) -> dict[str, object]:
    """Return the plain values of a record by dotted path; a list is one value."""
    return dict(_leaves(msgspec.to_builtins(record), ""))


def leaf_json(path: str, value: object) -> str:
    """Return the value at a path as JSON text, hidden when its name is a secret's."""
    return _text(_shown(value, path.rpartition(".")[2], frozenset()))


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping) and value:
        for name, below in value.items():
            yield from _leaves(below, f"{path}.{name}" if path else str(name))
    else:
        yield path, value


def _shown(value: object, name: str, hidden: frozenset[str]) -> object:
    if name in hidden and value is not None:
        return HIDDEN
    if isinstance(value, Mapping):
        return {key: _shown(below, str(key), hidden) for key, below in value.items()}
    if isinstance(value, list | tuple):
        if all(isinstance(item, str) for item in value):
            return list(_arguments([str(item) for item in value], name))
        return [_shown(item, name, hidden) for item in value]
    return _scalar(name, value)


def _arguments(items: list[str], name: str) -> Iterator[object]:
    """Hide what follows a flag whose name is a secret's: `--api-key x`, `--api-key=x`."""
    flag = ""
    for item in items:
        match = _FLAG.fullmatch(item)
        if match is None:
            yield _scalar(flag or name, item)
            flag = ""
            continue
        flag = _flag_name(match[1])
        if match[2]:
            shown = _scalar(flag, match[2][1:])
            yield item if shown == match[2][1:] else f"{item[: match.start(2)]}={shown}"
            flag = ""
        else:
            yield item


def _flag_name(text: str) -> str:
    """Return a flag's name as a field's; `tokens` in an engine's flag are counted, not secret."""
    return text.replace("-", "_").removesuffix("_tokens")


def _scalar(name: str, value: object) -> object:
    shown = hide(name, value)
    return _USERINFO.sub(rf"\1:{HIDDEN}@", shown) if isinstance(shown, str) else shown


def _text(value: object) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()
