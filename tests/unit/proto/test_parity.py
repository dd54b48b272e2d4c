"""Every message has a record of its name with the same fields; numbers keep their places."""

import re

import pytest
from google.protobuf.descriptor import FieldDescriptor

from llmgw_proto import convert, fast
from llmgw_proto.shape import Form, RecordField, fields_of
from tests.unit.proto.messages import (
    descriptor,
    file_set,
    is_wrapper,
    message_names,
    record_names,
    records,
)

TYPES = {
    str: FieldDescriptor.TYPE_STRING,
    int: FieldDescriptor.TYPE_INT64,
    float: FieldDescriptor.TYPE_DOUBLE,
    bool: FieldDescriptor.TYPE_BOOL,
    bytes: FieldDescriptor.TYPE_BYTES,
}

KEPT = {
    ("Command", 4): "trace context",
    ("Command", 19): "drain",
    ("Command", 20): "fabric map",
    ("Command", 21): "fabric test",
    ("Command", 22): "upgrade",
    ("Command", 23): "restart",
    ("Command", 24): "firewall",
    ("Command", 25): "slurm",
    ("Command", 26): "LoRA job",
    ("Command", 27): "doctor",
    ("AgentMessage", 20): "KV-cache blocks",
    ("AgentMessage", 21): "job progress",
}
"""Numbers that later requests and reports will take; each is named in the sources."""


@pytest.mark.parametrize("name", record_names())
def test_a_message_has_a_record_with_the_same_fields(name):
    record = records()[name]
    members = {
        oneof.name
        if (oneof := member.containing_oneof) and _is_choice(name, oneof.name)
        else member.name
        for member in descriptor(name).fields
    }
    assert members == set(record.__struct_fields__)


@pytest.mark.parametrize("name", record_names())
def test_a_field_says_the_same_in_record_and_message(name):
    for field in fields_of(records()[name]):
        if field.choices and _is_choice(name, field.name):
            _check_choice(name, field)
        else:
            _check_member(field, descriptor(name).fields_by_name[field.name])


@pytest.mark.parametrize("name", record_names())
def test_both_converters_compile_for_every_record(name):
    record = records()[name]
    convert.writer(record, convert.message_of(record))
    convert.reader(record, convert.message_of(record))
    fast.writer(record, descriptor(name))
    fast.reader(record, descriptor(name))


def test_wrappers_hold_one_repeated_field_and_nothing_else():
    wrappers = [name for name in message_names() if name.endswith(("List", "Map"))]
    assert wrappers
    for name in wrappers:
        assert is_wrapper(name), name
        assert descriptor(name).fields_by_name["items"].is_repeated, name


def test_no_field_is_called_as_a_method_of_the_message_class():
    forbidden = re.compile(r"dump|load|parse|is_set|from_.*|to_.*")
    fields = [(name, f.name) for name in message_names() for f in descriptor(name).fields]
    assert [field for field in fields if forbidden.fullmatch(field[1])] == []


def test_every_enum_begins_with_what_is_not_known():
    for file in file_set().file:
        for enum in file.enum_type:
            assert enum.value[0].name.endswith("_UNSPECIFIED"), enum.name


@pytest.mark.parametrize(("place", "what"), KEPT.items())
def test_kept_numbers_are_free_and_named_in_the_sources(place, what):
    message, number = place
    assert number not in descriptor(message).fields_by_number
    sources = fast.DESCRIPTORS.parents[2] / "llmgw" / "v1"
    comments = " ".join(
        line.removeprefix("//")
        for source in sorted(sources.glob("*.proto"))
        for line in source.read_text().splitlines()
        if line.startswith("//")
    )
    assert re.search(rf"\b{number}\b (for (the )?)?{re.escape(what)}", comments)


def _is_choice(name: str, group: str) -> bool:
    return group in records()[name].__struct_fields__ and group in descriptor(name).oneofs_by_name


def _check_choice(name: str, field: RecordField) -> None:
    members = descriptor(name).oneofs_by_name[field.name].fields
    assert {member.name for member in members} == set(field.choices)
    for member in members:
        assert member.message_type is not None
        assert member.message_type.name == field.choices[member.name].__name__


def _check_member(field: RecordField, member: FieldDescriptor) -> None:
    where = member.full_name
    if field.form in (Form.LIST, Form.MAP):
        inner = member.message_type
        wrapper = inner if inner is not None and is_wrapper(inner.name) else None
        assert field.optional == bool(wrapper), f"{where}: a list that can be not said is a wrapper"
        many = wrapper.fields_by_name["items"] if wrapper else member
        assert many.is_repeated, where
        _check_item(field, _value_of_map(many) if field.form is Form.MAP else many)
    elif field.form is Form.RECORD:
        assert not member.is_repeated, where
        _check_item(field, member)
    elif member.enum_type is not None:
        assert field.item is str, where
    else:
        assert member.has_presence == field.optional, f"{where}: optional in one alone"
        _check_item(field, member)


def _check_item(field: RecordField, member: FieldDescriptor) -> None:
    if field.of_records:
        assert member.message_type is not None
        assert member.message_type.name == field.item.__name__
    else:
        assert member.type == TYPES[field.item], member.full_name


def _value_of_map(member: FieldDescriptor) -> FieldDescriptor:
    assert member.message_type is not None
    assert member.message_type.GetOptions().map_entry
    return member.message_type.fields_by_name["value"]
