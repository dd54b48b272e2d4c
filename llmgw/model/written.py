"""Reading what people write: strict, with the path of what is wrong and the nearest right name."""

import difflib
import re
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from llmgw.base.errors import Unreadable

T = TypeVar("T")

_NOT_ASCII = re.compile(r"[\x7f-\U0010ffff]")
_UNKNOWN = re.compile(
    r"Object contains unknown field `(?P<name>[^`]*)`(?: - at `(?P<path>[^`]*)`)?"
)
_TOO_DEEP = "too many levels inside each other"
_BOUND = re.compile(
    r"Expected `(?P<type>\w+)` (?P<length>of length )?(?P<sign><=|>=|<|>) (?P<to>[-+.e\d]+)"
)
"""How msgspec says that a value is out of its bounds."""
_SIGNS = {"<=": "at most", ">=": "at least", "<": "less than", ">": "more than"}
_AT = re.compile(r"^(?P<words>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)


def read_json(data: bytes | str, type_: type[T], where: str) -> T:
    """Return the value of a JSON text.

    Raises:
        Unreadable: it is not JSON, or not of that shape; names `where`, the path and what to write.
    """
    try:
        return msgspec.json.decode(data, type=type_)
    except msgspec.ValidationError as error:
        raise _explained(error, type_, where) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(f"{where}: not JSON: {error}") from error
    except RecursionError as error:
        raise Unreadable(f"{where}: {_TOO_DEEP}") from error


def read_yaml(text: str, type_: type[T], where: str) -> T:
    """Return the value of a YAML text; an empty text is an empty mapping.

    Raises:
        Unreadable: it is not YAML, or not of that shape; names `where`, the path and what to write.
    """
    return read_plain(plain_yaml(text, where), type_, where)


def plain_yaml(text: str, where: str) -> object:
    """Return what a YAML text holds as plain values; an empty text is an empty mapping."""
    import yaml  # PyYAML costs more to import than a whole command that needs none

    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise Unreadable(f"{where}: not YAML: {_yaml_words(error)}") from error
    except RecursionError as error:
        raise Unreadable(f"{where}: {_TOO_DEEP}") from error
    except (ValueError, OverflowError) as error:
        # A number of thousands of digits, a date that is none.
        raise Unreadable(f"{where}: not YAML: {_yaml_words(error)}") from error
    return {} if value is None else value


def _yaml_words(error: Exception) -> str:
    """Return what is wrong in one line, with its place; never the text around it."""
    problem, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
    if problem is None or mark is None:
        return " ".join(str(error).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"


def read_plain(value: object, type_: type[T], where: str) -> T:
    """Return the record of plain values (as JSON or YAML gave them)."""
    try:
        return msgspec.convert(value, type_, strict=True)
    except msgspec.ValidationError as error:
        raise _explained(error, type_, where) from error
    except RecursionError as error:
        raise Unreadable(f"{where}: {_TOO_DEEP}") from error


def to_yaml(record: object) -> str:
    """Return a record as YAML, fields in their order, defaults included.

    Characters that are not printable are escaped: none of them steers a terminal.
    """
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        # Only in double quotes there are escapes.
        style = None if value.replace("\n", "").isprintable() else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    data = msgspec.to_builtins(record)
    said = yaml.dump(data, Dumper=Dumper, sort_keys=False, allow_unicode=True)
    return said if said.isascii() else _NOT_ASCII.sub(_escaped, said)


def _escaped(match: re.Match[str]) -> str:
    return match[0] if match[0].isprintable() else f"\\U{ord(match[0]):08X}"


def layered(
    type_: type[T],
    *,
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    file: Path | None,
    file_text: str | None,
) -> T:
    """Return a service's own settings: flag > `LLMGW_*` > file > default.

    Args:
        type_: a flat `Written` Struct.
        flags: what was typed; a None means not typed.
        environ: `LLMGW_<FIELD>` is read for each field; lists are comma-separated.
        file: named in errors.
        file_text: its text; None when it does not exist.

    Raises:
        Unreadable: a field or a value is not right; says which of the three holds it.
    """
    values: dict[str, object] = {}
    if file_text is not None:
        where = str(file)
        found = plain_yaml(file_text, where)
        if not isinstance(found, dict):
            raise Unreadable(f"{where}: must be a mapping of settings, is {type(found).__name__}")
        read_plain(_completed(found, type_), type_, where)
        values.update(found)
    for name, text in _from_environ(type_, environ).items():
        values[name] = _convert_text(text, type_, name, f"LLMGW_{name.upper()}")
    values.update({name: value for name, value in flags.items() if value is not None})
    return read_plain(values, type_, "command line")


def _completed(found: dict[Any, Any], type_: type) -> dict[Any, Any]:
    """Add placeholders for required fields that the file leaves to flags: the rest is checked."""
    info = msgspec.inspect.type_info(type_)
    if not isinstance(info, msgspec.inspect.StructType):
        return found
    missing = {f.encode_name: "" for f in info.fields if f.required and f.encode_name not in found}
    return {**missing, **found}


def _from_environ(type_: type, environ: Mapping[str, str]) -> dict[str, str]:
    names = typing.get_type_hints(type_)
    return {n: environ[f"LLMGW_{n.upper()}"] for n in names if f"LLMGW_{n.upper()}" in environ}


def _convert_text(text: str, type_: type, name: str, where: str) -> object:
    hint = typing.get_type_hints(type_)[name]
    value: object = text.split(",") if _is_list(hint) else text
    try:
        return msgspec.to_builtins(msgspec.convert(value, hint, strict=False))
    except msgspec.ValidationError as error:
        raise Unreadable(f"{where}: {error}: {text!r}") from error


def _is_list(hint: object) -> bool:
    parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return any(typing.get_origin(part) in (tuple, list) for part in parts)


def _explained(error: msgspec.ValidationError, type_: object, where: str) -> Unreadable:
    """Return the error with a path people can find and the nearest name."""
    text = str(error)
    if unknown := _UNKNOWN.search(text):
        parent = (unknown["path"] or "$").removeprefix("$").removeprefix(".")
        path = f"{parent}.{unknown['name']}" if parent else unknown["name"]
        near = difflib.get_close_matches(unknown["name"], _names_at(type_, parent), n=1)
        return Unreadable(
            f"{where}: {path}: no such field", hint=f"did you mean {near[0]!r}?" if near else None
        )
    return Unreadable(f"{where}: {said_of(error)}")


def said_of(error: msgspec.ValidationError) -> str:
    """Return what is wrong with a value, behind its path: `name: has more than 253 characters`."""
    found = _AT.match(str(error))
    words = found["words"] if found else str(error)
    path = (found["path"] if found and found["path"] else "").removeprefix("$").removeprefix(".")
    return f"{path}: {bound_words(words)}" if path else bound_words(words)


def bound_words(words: str) -> str:
    """Return in plain words that a value is out of its bounds; anything else as it is."""
    bound = _BOUND.fullmatch(words)
    if bound is None:
        return words
    sign, to = bound["sign"], bound["to"]
    if bound["length"] is None:
        return f"must be {_SIGNS[sign]} {float(to):.16g}"
    what = {"str": "characters", "bytes": "bytes"}.get(bound["type"], "items")
    if sign == "<=":
        return f"has more than {to} {what}"
    return "must not be empty" if to == "1" else f"has fewer than {to} {what}"


def _names_at(type_: object, path: str) -> list[str]:
    """Return the field names that may stand at a path; all names when the path can't be walked."""
    known: list[str] = []
    _collect(type_, known, set())
    here = _walk(type_, [p for p in re.split(r"[.\[]", path) if p and not p.endswith("]")])
    return here or known


def _walk(type_: object, steps: list[str]) -> list[str]:
    structs = _structs(type_)
    for step in steps:
        following: list[Any] = []
        for struct in structs:
            hints = typing.get_type_hints(struct)
            following += _structs(hints[step]) if step in hints else []
        structs = following
    return [name for struct in structs for name in struct.__struct_fields__]


def _collect(type_: object, into: list[str], seen: set[object]) -> None:
    for struct in _structs(type_):
        if struct in seen:
            continue
        seen.add(struct)
        for name, hint in typing.get_type_hints(struct).items():
            into.append(name)
            _collect(hint, into, seen)


def _structs(hint: object) -> list[Any]:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return [hint]
    return [struct for part in typing.get_args(hint) for struct in _structs(part)]
