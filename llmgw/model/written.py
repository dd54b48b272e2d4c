"""Reading what people write: strict, every mistake at once with its path and the nearest name."""

import re
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from llmgw.base.errors import Unreadable
from llmgw.model.faulty import Faulty
from llmgw.model.misfits import misfits
from llmgw.model.plainwords import said_of
from llmgw.model.record import Problem
from llmgw.model.unread import NotRead

T = TypeVar("T")
Meaning = Callable[[T], tuple[Problem, ...]]
"""Says what is wrong with the meaning of a record, beyond its shape."""

_NOT_ASCII = re.compile(r"[\x7f-\U0010ffff]")
_TOO_DEEP = "too many levels inside each other"


def read_json(
    data: bytes | str, type_: type[T], where: str, *, meaning: Meaning[T] | None = None
) -> T:
    """Return the value of a JSON text; its meaning is not judged.

    Args:
        data: the text.
        type_: what it is to be.
        where: names it in errors.
        meaning: asked only of what is not of that shape, so that all is said at once.

    Raises:
        Faulty: it is not of that shape: every problem with its path and what to write.
        Unreadable: it is not JSON.
    """
    try:
        try:
            return msgspec.json.decode(data, type=type_)
        except msgspec.ValidationError as error:
            # What comes behind the first misfit has not been looked at: it may be no JSON.
            plain = msgspec.json.decode(data)
            raise _explained(error, plain, type_, where, meaning) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(f"{where}: not JSON: {error}") from error
    except RecursionError as error:
        raise Unreadable(f"{where}: {_TOO_DEEP}") from error


def read_yaml(text: str, type_: type[T], where: str, *, meaning: Meaning[T] | None = None) -> T:
    """Return the value of a YAML text; an empty text is an empty mapping. As `read_json`.

    A key that stands twice in a mapping is a problem too.
    """
    value, twice = _of_yaml(text, where)
    try:
        read = read_plain(value, type_, where, meaning=meaning)
    except Faulty as error:
        raise Faulty(where, (*twice, *error.problems)) from error
    if twice:
        raise Faulty(where, (*twice, *_meant(read, meaning)))
    return read


def plain_yaml(text: str, where: str) -> object:
    """Return what a YAML text holds as plain values; an empty text is an empty mapping.

    Raises:
        Faulty: keys stand twice in a mapping: each with its path and lines.
        Unreadable: it is not YAML.
    """
    value, twice = _of_yaml(text, where)
    if twice:
        raise Faulty(where, twice)
    return value


def _of_yaml(text: str, where: str) -> tuple[object, tuple[Problem, ...]]:
    import yaml  # PyYAML costs more to import than a whole command that needs none

    from llmgw.model.yamltext import plain

    try:
        value, twice = plain(text)
    except yaml.YAMLError as error:
        raise Unreadable(f"{where}: not YAML: {_yaml_words(error)}") from error
    except RecursionError as error:
        raise Unreadable(f"{where}: {_TOO_DEEP}") from error
    except (ValueError, OverflowError) as error:
        # A number of thousands of digits, a date that is none.
        raise Unreadable(f"{where}: not YAML: {_yaml_words(error)}") from error
    return {} if value is None else value, twice


def _yaml_words(error: Exception) -> str:
    """Return what is wrong in one line, with its place; never the text around it."""
    problem, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
    if problem is None or mark is None:
        return " ".join(str(error).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"


def read_plain(
    value: object, type_: type[T], where: str, *, meaning: Meaning[T] | None = None
) -> T:
    """Return the record of plain values (as JSON or YAML gave them). As `read_json`."""
    try:
        return msgspec.convert(value, type_, strict=True)
    except msgspec.ValidationError as error:
        raise _explained(error, value, type_, where, meaning) from error
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


def _explained(
    error: msgspec.ValidationError,
    value: object,
    type_: type[T],
    where: str,
    meaning: Meaning[T] | None,
) -> Unreadable:
    """Return all that is wrong with plain values, of which one does not fit its type."""
    try:
        read, shape = misfits(value, type_)
    except RecursionError:
        return Unreadable(f"{where}: {_TOO_DEEP}")
    if not shape:
        return Unreadable(f"{where}: {said_of(error)}")
    return Faulty(where, (*shape, *_meant(read, meaning)))


def _meant(read: T, meaning: Meaning[T] | None) -> tuple[Problem, ...]:
    """Return what is wrong with the meaning of what could be read."""
    try:
        return () if meaning is None else meaning(read)
    except NotRead:
        return ()
