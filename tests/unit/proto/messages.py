"""What the tests of messages share: the descriptors, the records beside them, records at random."""

import importlib
import pkgutil
from functools import cache
from typing import Any, cast

import msgspec
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import strategies as st

import llmgw.model
from llmgw_proto import fast
from llmgw_proto.shape import Form, RecordField, Words, fields_of

INT64 = 1 << 63
EMPTY_MESSAGES = {"AuthorityRequest"}
"""Messages that say nothing and need no record."""


def file_set() -> descriptor_pb2.FileDescriptorSet:
    return descriptor_pb2.FileDescriptorSet.FromString(fast.DESCRIPTORS.read_bytes())


@cache
def message_names() -> tuple[str, ...]:
    files = (file for file in file_set().file if file.package == fast.PACKAGE)
    return tuple(sorted(message.name for file in files for message in file.message_type))


def descriptor(name: str) -> Descriptor:
    return cast("Descriptor", fast.message_class(name).DESCRIPTOR)


def is_wrapper(name: str) -> bool:
    return name.endswith(("List", "Map")) and [f.name for f in descriptor(name).fields] == ["items"]


def record_names() -> tuple[str, ...]:
    """Return the names of the messages that have to have a record."""
    return tuple(n for n in message_names() if not is_wrapper(n) and n not in EMPTY_MESSAGES)


@cache
def records() -> dict[str, type[msgspec.Struct]]:
    """Return every record of the model by its name."""
    found: dict[str, type[msgspec.Struct]] = {}
    for module in pkgutil.iter_modules(llmgw.model.__path__):
        for value in vars(importlib.import_module(f"llmgw.model.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, msgspec.Struct):
                found[value.__name__] = value
    return found


def words_of(member: FieldDescriptor) -> Words:
    enum = member.enum_type
    assert enum is not None
    return Words(enum.name, ((value.name, value.number) for value in enum.values))


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS: dict[type, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: st.integers(-INT64, INT64 - 1),
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
    bytes: st.binary(max_size=8),
}


@cache
def any_record(record: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Return records of a type with anything in them that has a form on the wire."""
    fields = {f.name: _field(record, f) for f in fields_of(record)}
    if "body" in descriptor(record.__name__).oneofs_by_name:
        return st.one_of(*(st.builds(record, **{name: made}) for name, made in fields.items()))
    return st.builds(record, **fields)


def _field(record: type[msgspec.Struct], field: RecordField) -> st.SearchStrategy[Any]:
    if field.choices:
        made = st.one_of(*(any_record(choice) for choice in field.choices.values()))
    elif field.of_records:
        made = any_record(field.record)
    elif (member := descriptor(record.__name__).fields_by_name[field.name]).enum_type is not None:
        made = st.sampled_from([*words_of(member), "unknown(77)"])
    else:
        made = SCALARS[field.item]
    if field.form is Form.LIST:
        made = st.lists(made, max_size=2).map(tuple)
    elif field.form is Form.MAP:
        made = st.dictionaries(TEXT, made, max_size=2)
    return st.none() | made if field.optional else made
