"""What differs between two versions of a model, for people."""

from collections.abc import Sequence
from typing import TypeGuard

import msgspec

from llmgw.model.catalog import Model


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
