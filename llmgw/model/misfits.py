"""Plain values that do not fit a shape: every place at once, and what can be read of the rest.

msgspec stops at the first place. Whoever wrote a file with five mistakes is told all five.
"""

import difflib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from llmgw.model.plainwords import at_its_path
from llmgw.model.record import Problem
from llmgw.model.unread import UNREAD

MOST = 100
"""Problems after which nothing more is looked for."""
_NAME_MOST = 60


def misfits(value: object, type_: object) -> tuple[Any, tuple[Problem, ...]]:
    """Return what can be read of a value, and each place at which it does not fit its type.

    Args:
        value: plain, as JSON or YAML gave it.
        type_: its type: a Struct, or a type expression of them.

    Returns:
        The value as the type has it, with `UNREAD` in place of what does not fit or is missing;
        and the problems in the order in which they are written, none when all fits.

    Raises:
        RecursionError: it has more levels inside each other than can be walked.
    """
    reading = _Reading()
    read = reading.read(value, type_, "")
    return read, tuple(reading.problems)


class _Reading:
    """One walk over a value and its type, side by side."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def read(self, value: object, hint: object, path: str) -> object:
        try:
            return msgspec.convert(value, hint, strict=True)
        except msgspec.ValidationError as error:
            before = len(self.problems)
            if before >= MOST:
                return UNREAD
            found = self._parts(value, hint, path)
            if len(self.problems) == before:
                # Each part fits: the whole does not, it is too long.
                within, words = at_its_path(error)
                self._note(joined(path, within), words)
                return UNREAD
            return found

    def _note(self, path: str, words: str) -> None:
        if len(self.problems) < MOST:
            self.problems.append(Problem(path=path, words=words))

    def _parts(self, value: object, hint: object, path: str) -> object:
        """Read the parts of what does not fit as a whole."""
        if isinstance(value, dict):
            structs = [one for one in _choices(hint) if _is_struct(one)]
            if structs:
                return self._meant(value, structs, path)
            entries = next((one for one in _choices(hint) if typing.get_origin(one) is dict), None)
            if entries is not None:
                return self._entries(value, typing.get_args(entries)[1], path)
        elif isinstance(value, list | tuple):
            items = next(
                (one for one in _choices(hint) if typing.get_origin(one) in (tuple, list)), None
            )
            if items is not None:
                return self._items(value, typing.get_args(items)[0], path)
        return UNREAD

    def _items(self, value: Sequence[object], hint: object, path: str) -> object:
        return tuple(self.read(one, hint, f"{path}[{at}]") for at, one in enumerate(value))

    def _entries(self, value: Mapping[object, object], hint: object, path: str) -> object:
        return {key: self.read(one, hint, joined(path, named(key))) for key, one in value.items()}

    def _meant(self, value: dict[object, object], structs: Sequence[Any], path: str) -> object:
        """Read a mapping as the one of several records that its tag names."""
        tags = {one.__struct_config__.tag: one for one in structs}
        field = structs[0].__struct_config__.tag_field
        if field is None:
            return self._struct(value, structs[0], path)
        if field not in value:
            if len(structs) == 1:
                return self._struct(value, structs[0], path)
            self._note(joined(path, field), f"is missing: one of {', '.join(sorted(tags))}")
            return UNREAD
        tag = value[field]
        if not isinstance(tag, str) or tag not in tags:
            near = _near(tag, tags)
            words = f"{named(tag)!r} is none of {', '.join(sorted(tags))}{near}"
            self._note(joined(path, field), words)
            return UNREAD
        return self._struct(value, tags[tag], path)

    def _struct(self, value: dict[object, object], struct: Any, path: str) -> object:  # noqa: ANN401
        config = struct.__struct_config__
        fields = {one.encode_name: one for one in msgspec.structs.fields(struct)}
        known: dict[str, object] = {}
        meant: set[str] = set()  # what mistyped names stand for: it is not missing
        for key, one in value.items():
            field = fields.get(key) if isinstance(key, str) else None
            if field is not None:
                known[field.name] = self.read(one, field.type, joined(path, field.encode_name))
            elif config.forbid_unknown_fields and key != config.tag_field:
                near = difflib.get_close_matches(named(key), fields.keys() - value.keys(), n=1)
                meant.update(near)
                words = f"no such field{_near(key, fields)}"
                self._note(joined(path, named(key)), words)
        for name, field in fields.items():
            if field.name in known or not (field.required or name in meant):
                continue
            known[field.name] = UNREAD
            if name not in meant:
                self._note(joined(path, name), "is missing")
        return struct(**known)


def _choices(hint: object) -> list[Any]:
    """Return what a type allows: the members of a union, without what only bounds them."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _choices(parts[0])
    if origin in (typing.Union, types.UnionType):
        return [one for part in parts for one in _choices(part)]
    return [hint]


def _is_struct(hint: object) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def _near(name: object, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(named(name), list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def named(key: object) -> str:
    """Return a key as it may stand in a line: printable, and not long."""
    text = key if isinstance(key, str) else str(key)
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= _NAME_MOST else f"{text[: _NAME_MOST - 1]}…"


def joined(path: str, name: str) -> str:
    """Return the path of what has a name within what has a path; either may be empty."""
    if not path or not name:
        return path or name
    return f"{path}{name}" if name.startswith("[") else f"{path}.{name}"
