"""What a record's fields mean on the wire, read from its annotations.

The rules, for both kinds of message:

- a message has its record's name, a field its record field's name;
- `tuple` is a repeated field, `dict` a map; `tuple | None` and `dict | None` are an optional
  message with one field `items`, so that an empty list and no list stay two things;
- a union of tagged records is a oneof: its name is the field's, its members are the tags;
- an enum is its word in lower case; number 0 is None, a number without a word `unknown(7)`;
- None is an unset field, a zero is a zero.
"""
# Annotations are looked at here as values; they can be anything.
# ruff: noqa: ANN401

import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar

import msgspec

from llmgw.base.errors import Unreadable

T = TypeVar("T")

SCALARS = (str, int, float, bool, bytes)

_UNKNOWN = re.compile(r"unknown\((-?\d+)\)")
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


class Form(Enum):
    """What a field holds, None aside."""

    SCALAR = "scalar"
    RECORD = "record"
    LIST = "list"
    MAP = "map"


@dataclass(frozen=True, slots=True)
class RecordField:
    """One field of a record.

    `item` is the scalar type or the record type: of the field, of a list's items or a map's values.
    `choices` names the records of a union by their tags; it is empty for anything else.
    """

    name: str
    form: Form
    item: type[Any]
    optional: bool
    choices: Mapping[str, type[msgspec.Struct]]

    @property
    def of_records(self) -> bool:
        """Say whether the item is a record."""
        return self.item not in SCALARS

    @property
    def record(self) -> type[msgspec.Struct]:
        """Return the item's record type."""
        if not issubclass(self.item, msgspec.Struct):
            raise TypeError(f"{self.name} holds {self.item.__name__}, no record")
        return self.item


class Words:
    """An enum's words by number, and back."""

    def __init__(self, enum: str, names: Iterable[tuple[str, int]]) -> None:
        prefix = _CAPITAL.sub("_", enum).upper() + "_"
        self._enum = enum
        self._by_number = {n: name.removeprefix(prefix).lower() for name, n in names if n}
        self._by_word = {word: number for number, word in self._by_number.items()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_word)

    def word(self, number: int) -> str | None:
        """Return the word of a number that was received; None for 0."""
        if not number:
            return None
        return self._by_number.get(number) or f"unknown({int(number)})"

    def number(self, word: str) -> int:
        """Return the number to send for a word; `unknown(7)` goes back as it came.

        Raises:
            Unreadable: the enum has no such word.
        """
        number = self._by_word.get(word)
        if number is not None:
            return number
        match = _UNKNOWN.fullmatch(word)
        if match is None:
            raise Unreadable(f"{word!r} is not one of {', '.join(self._by_word)} ({self._enum})")
        return int(match[1])


def make_record(record: type[msgspec.Struct], parts: dict[str, Any]) -> Any:
    """Make a record of the fields that were said.

    Raises:
        Unreadable: one that it needs was not.
    """
    try:
        return record(**parts)
    except TypeError as error:
        missing = [name for name in record.__struct_fields__ if name not in parts]
        words = f"{record.__name__} came without what it needs: {', '.join(missing)}"
        raise Unreadable(words) from error


def not_said(record: type[msgspec.Struct], name: str) -> Unreadable:
    """Return the error about a field that is None and may not be."""
    return Unreadable(f"{record.__name__}.{name} is None and has to be said")


def one_alone(record: type[msgspec.Struct], group: tuple[str, ...], parts: dict[str, Any]) -> None:
    """Check that at most one of a oneof's members is set: a message with two is read as broken.

    Raises:
        Unreadable: two or more are.
    """
    said = [name for name in group if parts.get(name) is not None]
    if len(said) > 1:
        raise Unreadable(f"{record.__name__} says {' and '.join(said)} at once")


def chosen(choices: Mapping[type, T], held: object) -> T:
    """Return what belongs to a choice's record.

    Raises:
        Unreadable: it is none of the choices.
    """
    try:
        return choices[type(held)]
    except KeyError:
        names = ", ".join(choice.__name__ for choice in choices)
        raise Unreadable(f"{type(held).__name__} is none of {names}") from None


@cache
def fields_of(record: type[msgspec.Struct]) -> tuple[RecordField, ...]:
    """Return the fields of a record in their order.

    Raises:
        TypeError: an annotation has no form on the wire.
    """
    hints = typing.get_type_hints(record)
    return tuple(_field(record, name, hints[name]) for name in record.__struct_fields__)


def _field(record: type[msgspec.Struct], name: str, hint: Any) -> RecordField:
    options = _options(hint)
    meant = tuple(option for option in options if option is not type(None))
    optional = len(meant) < len(options)
    match meant:
        case (first, *others) if all(_is_record(option) for option in meant):
            choices = {_tag(option): option for option in meant if _tag(option)}
            if others and len(choices) < len(meant):
                raise TypeError(f"{record.__name__}.{name}: a choice needs records with tags")
            return RecordField(name, Form.RECORD, first, optional, choices)
        case (only,):
            return _plain(record, name, only, optional=optional)
        case _:
            raise TypeError(f"{record.__name__}.{name}: {hint} has no form on the wire")


def _plain(record: type[msgspec.Struct], name: str, hint: Any, *, optional: bool) -> RecordField:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple and len(parts) == 2 and parts[1] is Ellipsis:
        form, item = Form.LIST, parts[0]
    elif origin is dict and parts[0] is str:
        form, item = Form.MAP, parts[1]
    else:
        form, item = Form.SCALAR, hint
    if item not in SCALARS and not (form is not Form.SCALAR and _is_record(item)):
        raise TypeError(f"{record.__name__}.{name}: {hint} has no form on the wire")
    return RecordField(name, form, item, optional, {})


def _options(hint: Any) -> tuple[Any, ...]:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return typing.get_args(hint)
    return (hint,)


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def _tag(record: type[msgspec.Struct]) -> str:
    tag = record.__struct_config__.tag
    return tag if isinstance(tag, str) else ""
