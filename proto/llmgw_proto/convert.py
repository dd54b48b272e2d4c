"""Records to messages and back, generically: one converter a type, compiled at its first use.

A field that is added to a proto message and to the record of the same name needs nothing here.
`shape` states the rules. Messages of streams are those of protobuf's C runtime (`fast`), between
which and records `to_fast` and `to_record` go; all others are betterproto2's (docs/adr/0009).
"""
# What a field holds is known from its record, at run time.
# ruff: noqa: ANN401

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import betterproto2
import msgspec
from google.protobuf.message import Message as FastMessage

from llmgw.base.errors import Unreadable
from llmgw_proto import fast
from llmgw_proto.shape import (
    Form,
    RecordField,
    Words,
    chosen,
    fields_of,
    make_record,
    not_said,
    one_alone,
)
from llmgw_proto.wire.llmgw import v1

R = TypeVar("R", bound=msgspec.Struct)

_INT64 = 1 << 63

Write = Callable[[Any], Any]
Read = Callable[[Any], Any]
Put = Callable[[dict[str, Any], Any], None]


def to_wire(record: msgspec.Struct) -> betterproto2.Message:
    """Return the betterproto2 message of a record.

    Raises:
        Unreadable: a value does not fit its field; the message names the field.
    """
    return writer(type(record), message_of(type(record)))(record)


def to_fast(record: msgspec.Struct) -> FastMessage:
    """Return the message of protobuf's C runtime of a record.

    Raises:
        Unreadable: a value does not fit its field.
    """
    return fast.message_from(record)


def to_record(message: betterproto2.Message | FastMessage, record: type[R]) -> R:
    """Return the record of a message, whichever kind of message it is.

    Raises:
        Unreadable: the message lacks something that the record cannot do without.
    """
    if isinstance(message, betterproto2.Message):
        made: R = reader(record, type(message))(message)
        return made
    return fast.record_from(message, record)


def message_of(record: type[msgspec.Struct]) -> type[betterproto2.Message]:
    """Return the generated message class of a record.

    Raises:
        TypeError: there is no message of that name.
    """
    message = getattr(v1, record.__name__, None)
    if message is None:
        raise TypeError(f"no message is called {record.__name__}")
    found: type[betterproto2.Message] = message
    return found


@cache
def writer(
    record: type[msgspec.Struct], message: type[betterproto2.Message]
) -> Callable[[msgspec.Struct], betterproto2.Message]:
    """Compile the way from a record to its message."""
    steps = tuple((field, _put(record, field, message)) for field in fields_of(record))
    about = _about(message)
    members = [
        tuple(name for name, meta in about.meta_by_field_name.items() if meta.group == group)
        for group in about.oneof_field_by_group
        if group not in record.__struct_fields__
    ]

    def write(value: msgspec.Struct) -> betterproto2.Message:
        parts: dict[str, Any] = {}
        for field, put in steps:
            held = getattr(value, field.name)
            if held is None:
                if not field.optional:
                    raise not_said(record, field.name)
                continue
            try:
                put(parts, held)
            except (TypeError, ValueError) as error:
                raise Unreadable(f"{record.__name__}.{field.name}: {error}") from error
        for group in members:
            one_alone(record, group, parts)
        return message(**parts)

    return write


@cache
def reader(
    record: type[msgspec.Struct], message: type[betterproto2.Message]
) -> Callable[[betterproto2.Message], Any]:
    """Compile the way from a message to its record."""
    steps = tuple(_read_step(record, field, message) for field in fields_of(record))

    def read(value: betterproto2.Message) -> Any:
        parts: dict[str, Any] = {}
        for field, members in steps:
            said = None
            for member, part in members:
                held = getattr(value, member)
                if held is not None:
                    said = part(held)
                    break
            if said is not None or field.optional:
                parts[field.name] = said
        return make_record(record, parts)

    return read


def _put(
    record: type[msgspec.Struct], field: RecordField, message: type[betterproto2.Message]
) -> Put:
    if _is_oneof(field, message):
        choices = {
            choice: (tag, writer(choice, _class_of(record, tag, message)))
            for tag, choice in field.choices.items()
        }

        def put_choice(parts: dict[str, Any], held: Any) -> None:
            tag, write = chosen(choices, held)
            parts[tag] = write(held)

        return put_choice
    part = _write_part(record, field, message)

    def put(parts: dict[str, Any], held: Any) -> None:
        parts[field.name] = part(held)

    return put


def _write_part(
    record: type[msgspec.Struct], field: RecordField, message: type[betterproto2.Message]
) -> Write:
    meta = _meta(record, field.name, message)
    held = _class_of(record, field.name, message)
    if field.form in (Form.LIST, Form.MAP):
        if meta.proto_type == betterproto2.TYPE_MESSAGE and not meta.repeated:
            return _write_wrapped(field, held)
        return _write_many(field, held)
    if field.form is Form.RECORD:
        return writer(field.record, held)
    if meta.proto_type == betterproto2.TYPE_ENUM:
        return _write_word(held)
    return _check(field.item)


def _read_step(
    record: type[msgspec.Struct], field: RecordField, message: type[betterproto2.Message]
) -> tuple[RecordField, tuple[tuple[str, Read], ...]]:
    if _is_oneof(field, message):
        return field, tuple(
            (tag, reader(choice, _class_of(record, tag, message)))
            for tag, choice in field.choices.items()
        )
    return field, ((field.name, _read_part(record, field, message)),)


def _read_part(
    record: type[msgspec.Struct], field: RecordField, message: type[betterproto2.Message]
) -> Read:
    meta = _meta(record, field.name, message)
    held = _class_of(record, field.name, message)
    if field.form in (Form.LIST, Form.MAP):
        if meta.proto_type == betterproto2.TYPE_MESSAGE and not meta.repeated:
            unwrap = _read_many(field, _class_of(held, "items", held))
            return lambda said: unwrap(said.items)
        return _read_many(field, held)
    if field.form is Form.RECORD:
        return reader(field.record, held)
    if meta.proto_type == betterproto2.TYPE_ENUM:
        return _words(held).word
    return _same


def _write_wrapped(field: RecordField, wrapper: Any) -> Write:
    many = _write_many(field, _class_of(wrapper, "items", wrapper))
    return lambda value: wrapper(items=many(value))


def _write_many(field: RecordField, held: Any) -> Write:
    part = writer(field.record, held) if field.of_records else _check(field.item)
    if field.form is Form.MAP:
        return lambda value: {_text(key): part(item) for key, item in value.items()}
    return lambda value: [part(item) for item in value]


def _read_many(field: RecordField, held: Any) -> Read:
    part = reader(field.record, held) if field.of_records else _same
    if field.form is Form.MAP:
        return lambda said: {key: part(item) for key, item in said.items()}
    return lambda said: tuple(map(part, said))


def _write_word(enum: Any) -> Write:
    words = _words(enum)
    return lambda word: enum(words.number(word))


@cache
def _words(enum: Any) -> Words:
    return Words(enum.__name__, ((m.proto_name or m.name, m.value) for m in enum))


def _is_oneof(field: RecordField, message: type[betterproto2.Message]) -> bool:
    return bool(field.choices) and field.name in _about(message).oneof_field_by_group


def _meta(record: type, name: str, message: type[betterproto2.Message]) -> Any:
    try:
        return _about(message).meta_by_field_name[name]
    except KeyError:
        words = f"message {message.__name__} has no {name}: {record.__name__} has"
        raise TypeError(words) from None


def _class_of(record: type, name: str, message: type[betterproto2.Message]) -> Any:
    """Return the class of what a field of a message holds; of a map, of its values."""
    meta = _meta(record, name, message)
    key = f"{name}.value" if meta.proto_type == betterproto2.TYPE_MAP else name
    return _about(message).cls_by_field[key]


def _about(message: Any) -> betterproto2.ProtoClassMetadata:
    """Return what betterproto2 knows about a message class; it has no public door to it."""
    known: betterproto2.ProtoClassMetadata = message._betterproto  # noqa: SLF001
    return known


def _same(value: Any) -> Any:
    return value


def _check(scalar: type) -> Write:
    return {str: _text, int: _whole, float: _number, bool: _flag, bytes: _same}[scalar]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    value.encode()  # a lone surrogate has no form on the wire
    return value


def _whole(value: Any) -> int:
    # betterproto2 sends what does not fit 64 bits as another number.
    if not isinstance(value, int) or not -_INT64 <= value < _INT64:
        raise TypeError(f"{value!r} is not a whole number of 64 bits")
    return value


def _number(value: Any) -> float:
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value
