"""Records with every field filled in, and with one field made hostile: walked by their types.

A place names a field wherever it occurs: `Node.inventory.devices.name`, a label's name
`Node.labels{}` and its value `Node.labels`; in plain dictionaries it is `.verdict.words`.
"""

import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

LONG = 5000
BIDI = "\u202eevil\u2066\u200f"
HAZARDS = {
    "control": "\x00\x07\x08\r\x7f\x0b",
    "title": "\x1b]0;owned\x07",
    "colour": "\x1b[31m\x1b[2J\x1b(0",
    "c1": "\x9b31m\x9d0;owned\x9c",
    "clipboard": "\x1b]52;c;aGk=\x1b\\",
    "cut short": "\x1b",
    "markup": "[red][@click=app.quit]x[/]",
    "bidi": BIDI,
    "zero width": "\u200b\u200d\ufeff\u00ad\u2060\u061c",
    "lines": "\n\r\n\u2028\u2029\x85\v\f",
    "tab": "\t\t",
    "wide": "漢字🎉👩\u200d💻",
    "combining": "e\u0301\u0301\u0301ก็็็",
    "unassigned": "\U000e0041\ue000\u0378\U0010ffff",
    "long": "x" * LONG,
    "braces": "{} %s {0} {node} $(reboot) `id` ; '\"",
    "blank": "     ",
}
"""What a string may hold that a terminal, a layout or a format could take for its own."""
NUMBERS = (1e308, -1e308, 5e-324)
WHOLE = ((1 << 63) - 1, -(1 << 63), 0)


def hazardous(tag: str) -> str:
    """Return everything at once, with a tag between that names where it came from."""
    kept = (text for name, text in HAZARDS.items() if name != "long")
    return f"{tag}".join(("", *kept, ""))


def mapped(value: T, change: Callable[[str, Any], object], place: str = "") -> T:
    """Return a value with every leaf of it replaced by what `change` returns for it."""
    made: Any
    if isinstance(value, msgspec.Struct):
        place = place or type(value).__name__
        fields = {
            name: mapped(getattr(value, name), change, f"{place}.{name}")
            for name in value.__struct_fields__
        }
        made = type(value)(**fields)
    elif isinstance(value, dict) and (not place or place.startswith(".")):
        made = {key: mapped(one, change, f"{place}.{key}") for key, one in value.items()}
    elif isinstance(value, dict):
        made = {
            change(f"{place}{{}}", key): mapped(one, change, place) for key, one in value.items()
        }
    elif isinstance(value, tuple | list):
        made = tuple(mapped(one, change, place) for one in value)
    else:
        made = change(place, value)
    return typing.cast("T", made)


def with_put(value: T, place: str | None, change: Mapping[type, object]) -> T:
    """Return a value in which the leaves of a place, or of all, are what their type gets."""

    def at(where: str, leaf: object) -> object:
        return change.get(type(leaf), leaf) if place in (None, where) else leaf

    return mapped(value, at)


def places(value: object, kind: type | tuple[type, ...] = str) -> set[str]:
    """Return where leaves of a kind stand in a value."""
    found: set[str] = set()

    def note(place: str, leaf: object) -> object:
        if isinstance(leaf, kind) and not (isinstance(leaf, bool) and kind is not bool):
            found.add(place)
        return leaf

    mapped(value, note)
    return found


def filled(value: T) -> T:
    """Return a record in which every field that says nothing says something."""
    made: Any = value
    if isinstance(value, msgspec.Struct):
        hints = typing.get_type_hints(type(value))
        made = type(value)(
            **{
                name: made_of(hints[name], name)
                if (old := getattr(value, name)) is None or old in ((), {})
                else filled(old)
                for name in value.__struct_fields__
            }
        )
    elif isinstance(value, tuple):
        made = tuple(filled(one) for one in value)
    return typing.cast("T", made)


def shortened(value: T, most: int = 2) -> T:
    """Return a value whose lists have so many entries at most."""
    made: Any = value
    if isinstance(value, msgspec.Struct):
        fields = value.__struct_fields__
        made = type(value)(**{name: shortened(getattr(value, name), most) for name in fields})
    elif isinstance(value, tuple):
        made = tuple(shortened(one, most) for one in value[:most])
    return typing.cast("T", made)


def made_of(kind: Any, name: str = "one") -> Any:
    """Return a value of a type with every field said."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return made_of(next(one for one in inner if one is not type(None)), name)
    if origin is typing.Literal:
        return inner[0]
    if origin is tuple:
        return (made_of(inner[0], name),)
    if origin is dict:
        return {f"{name}-key": made_of(inner[1], name)}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = typing.get_type_hints(kind)
        return kind(**{field: made_of(hints[field], field) for field in kind.__struct_fields__})
    simple: dict[Any, object] = {str: name, int: 3, float: 3.0, bool: True, Any: name}
    return simple.get(kind, name)


def steering(text: str) -> Iterator[str]:
    """Yield what in a text a terminal may take for a command, with what stands around it."""
    for at, character in enumerate(text):
        if not character.isprintable() and character != "\n":
            yield f"{character!r} in {text[max(0, at - 60) : at + 60]!r}"
