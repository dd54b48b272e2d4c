"""Records and the messages of protobuf's C runtime (upb): what streams carry, and what checks.

The message classes are made from the committed descriptors, so that any release of protobuf does.
A record becomes nested dicts and one call of the message's constructor, which runs in C; a message
becomes a record from its list of set fields, so that an unset field costs nothing.
"""
# What a field holds is known from its record, at run time.
# ruff: noqa: ANN401

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from llmgw.base.errors import Unreadable
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

R = TypeVar("R", bound=msgspec.Struct)

PACKAGE = "llmgw.v1"
DESCRIPTORS = Path(__file__).parent / "wire" / "llmgw.binpb"

_ZERO: dict[type, object] = {str: "", int: 0, float: 0.0, bool: False, bytes: b""}

Part = Callable[[Any], Any]
Put = Callable[[dict[str, Any], Any], None]


@cache
def message_class(name: str) -> type[Message]:
    """Return the message class of that name.

    Raises:
        KeyError: there is no message of that name.
    """
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))


def message_from(record: msgspec.Struct) -> Message:
    """Return the message of a record.

    Raises:
        Unreadable: a value does not fit its field.
    """
    message = message_class(type(record).__name__)
    return make_message(message, writer(type(record), message.DESCRIPTOR)(record))


def record_from(message: Message, record: type[R]) -> R:
    """Return the record of a message.

    Raises:
        Unreadable: the message lacks something that the record cannot do without.
    """
    made: R = reader(record, message.DESCRIPTOR)(message)
    return made


def thin(message: Message, most: int, left: int) -> int:
    """Leave the first `most` items of each list in a message, and return how many are left of all.

    What a machine sends is never so long unless it is broken or means harm: to make records of it
    would take seconds.

    Args:
        message: is changed.
        most: items of one list.
        left: items that all lists together may still hold.

    Raises:
        Unreadable: they hold more.
    """
    for member, value in message.ListFields():
        if not member.is_repeated:
            if member.message_type is not None:
                left = thin(value, most, left)
            continue
        kept = member.message_type
        if kept is not None and kept.GetOptions().map_entry:
            kept = None
        elif len(value) > most:
            del value[most:]
        left -= len(value)
        if left < 0:
            raise Unreadable(f"{message.DESCRIPTOR.name}.{member.name}: too many items in all")
        for item in value if kept is not None else ():
            left = thin(item, most, left)
    return left


def make_message(message: type[Message], parts: dict[str, Any]) -> Message:
    """Make a message of nested dicts.

    Raises:
        Unreadable: a value does not fit its field.
    """
    try:
        return message(**parts)
    except (TypeError, ValueError) as error:
        raise Unreadable(f"{message.DESCRIPTOR.name}: {error}") from error


@cache
def writer(
    record: type[msgspec.Struct], descriptor: Descriptor
) -> Callable[[msgspec.Struct], dict[str, Any]]:
    """Compile the way from a record to the nested dicts of its message."""
    fields = fields_of(record)
    # asdict gives scalars and lists of scalars as they are; the constructor leaves None out.
    special = tuple(step for f in fields if (step := _write_step(record, f, descriptor)))
    needed = tuple(field.name for field in fields if not field.optional)
    members = [
        tuple(member.name for member in group.fields)
        for group in descriptor.oneofs
        if group.name not in record.__struct_fields__ and len(group.fields) > 1
    ]

    def write(value: msgspec.Struct) -> dict[str, Any]:
        parts = msgspec.structs.asdict(value)
        for name in needed:
            if parts[name] is None:
                raise not_said(record, name)
        for name, put in special:
            held = parts.pop(name)
            if held is not None:
                put(parts, held)
        for group in members:
            one_alone(record, group, parts)
        return parts

    return write


@cache
def reader(record: type[msgspec.Struct], descriptor: Descriptor) -> Callable[[Message], Any]:
    """Compile the way from a message to its record."""
    base: dict[str, Any] = {}
    parts_of: dict[int, tuple[str, Part | None]] = {}
    for field in fields_of(record):
        if field.optional:
            base[field.name] = None
        elif (empty := _empty(field, descriptor)) is not None:
            base[field.name] = empty
        for member, part in _read_steps(record, field, descriptor):
            parts_of[member.number] = (field.name, part)

    def read(message: Message) -> Any:
        parts = base.copy()
        for member, value in message.ListFields():
            step = parts_of.get(member.number)
            if step is None:
                continue
            name, part = step
            parts[name] = value if part is None else part(value)
        return make_record(record, parts)

    return read


def _write_step(
    record: type[msgspec.Struct], field: RecordField, descriptor: Descriptor
) -> tuple[str, Put] | None:
    if _is_oneof(field, descriptor):
        choices = {
            choice: (tag, writer(choice, _message(_member(record, tag, descriptor))))
            for tag, choice in field.choices.items()
        }

        def put_choice(parts: dict[str, Any], held: Any) -> None:
            tag, part = chosen(choices, held)
            parts[tag] = part(held)

        return field.name, put_choice
    member = _member(record, field.name, descriptor)
    part = _write_part(field, member)
    if part is None:
        return None

    def put(parts: dict[str, Any], held: Any) -> None:
        parts[member.name] = part(held)

    return field.name, put


def _write_part(field: RecordField, member: FieldDescriptor) -> Part | None:
    if field.form is Form.SCALAR:
        return _words(member).number if member.enum_type is not None else None
    if field.form is Form.RECORD:
        return writer(field.record, _message(member))
    wrapped = _is_wrapped(member)
    many = _write_many(field, _message(member).fields_by_name["items"] if wrapped else member)
    if wrapped:
        return lambda held: {"items": many(held) if many else held}
    return many


def _write_many(field: RecordField, member: FieldDescriptor) -> Part | None:
    if not field.of_records:
        return None
    if field.form is Form.MAP:
        part = writer(field.record, _message(_message(member).fields_by_name["value"]))
        return lambda held: {key: part(item) for key, item in held.items()}
    part = writer(field.record, _message(member))
    return lambda held: [part(item) for item in held]


def _read_steps(
    record: type[msgspec.Struct], field: RecordField, descriptor: Descriptor
) -> list[tuple[FieldDescriptor, Part | None]]:
    if _is_oneof(field, descriptor):
        members = [(_member(record, tag, descriptor), c) for tag, c in field.choices.items()]
        return [(member, reader(choice, _message(member))) for member, choice in members]
    member = _member(record, field.name, descriptor)
    return [(member, _read_part(field, member))]


def _read_part(field: RecordField, member: FieldDescriptor) -> Part | None:
    if field.form is Form.SCALAR:
        return _words(member).word if member.enum_type is not None else None
    if field.form is Form.RECORD:
        return reader(field.record, _message(member))
    if _is_wrapped(member):
        many = _read_many(field, _message(member).fields_by_name["items"])
        return lambda held: many(held.items)
    return _read_many(field, member)


def _read_many(field: RecordField, member: FieldDescriptor) -> Part:
    if field.form is Form.MAP:
        if not field.of_records:
            return dict
        part = reader(field.record, _message(_message(member).fields_by_name["value"]))
        return lambda held: {key: part(item) for key, item in held.items()}
    if not field.of_records:
        return tuple
    part = reader(field.record, _message(member))
    return lambda held: tuple(map(part, held))


def _empty(field: RecordField, descriptor: Descriptor) -> object | None:
    """Return what an unset field that cannot be None means; None when it has to be set."""
    if field.form is Form.LIST:
        return ()
    if field.form is Form.MAP:
        return {}
    member = descriptor.fields_by_name.get(field.name)
    if field.form is Form.RECORD or member is None or member.enum_type is not None:
        return None
    return _ZERO[field.item]


@cache
def _words(member: FieldDescriptor) -> Words:
    enum = member.enum_type
    if enum is None:
        raise TypeError(f"{member.full_name} is not an enum")
    return Words(enum.name, ((value.name, value.number) for value in enum.values))


def _is_oneof(field: RecordField, descriptor: Descriptor) -> bool:
    return bool(field.choices) and field.name in descriptor.oneofs_by_name


def _is_wrapped(member: FieldDescriptor) -> bool:
    return member.message_type is not None and not member.is_repeated


def _member(record: type, name: str, descriptor: Descriptor) -> FieldDescriptor:
    try:
        return descriptor.fields_by_name[name]
    except KeyError:
        raise TypeError(f"message {descriptor.name} has no {name}: {record.__name__} has") from None


def _message(member: FieldDescriptor) -> Descriptor:
    if member.message_type is None:
        raise TypeError(f"{member.full_name} is not a message")
    return member.message_type


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(DESCRIPTORS.read_bytes())
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool
