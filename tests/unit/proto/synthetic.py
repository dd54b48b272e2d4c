"""A record and its message that no code has heard of, with a field of every form."""
# ruff: noqa: RUF009 -- this is how betterproto2 declares fields

from dataclasses import dataclass
from typing import Any

import betterproto2
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import Descriptor

from llmgw.model.record import Record


class LabelList(Record, frozen=True, kw_only=True):
    """Only here to be inside of a synthetic record."""

    name: str


class Round(Record, frozen=True, kw_only=True, tag_field="kind", tag="round"):
    """A choice."""

    radius: float | None = None


class Square(Record, frozen=True, kw_only=True, tag_field="kind", tag="square"):
    """A choice."""

    side: float


class Synthetic(Record, frozen=True, kw_only=True):
    """A record that no code has heard of, with a field of every form."""

    text: str
    count: int | None = None
    state: str | None = None
    shape: Round | Square | None = None
    inner: LabelList | None = None
    many: tuple[LabelList, ...] = ()
    said: tuple[str, ...] | None = None
    table: dict[str, LabelList] | None = None
    added: float | None = None
    """Added last, as a new field would be: to record and message, and nowhere else."""


FULL = Synthetic(
    text="",
    count=0,
    state="busy_now",
    shape=Square(side=2.0),
    inner=LabelList(name="i"),
    many=(LabelList(name=""), LabelList(name="b")),
    said=(),
    table={"": LabelList(name="v")},
    added=0.0,
)


class Mood(betterproto2.Enum):
    UNSPECIFIED = 0
    BUSY_NOW = 1


@dataclass(eq=False, repr=False)
class WireLabel(betterproto2.Message):
    name: "str" = betterproto2.field(1, betterproto2.TYPE_STRING)


@dataclass(eq=False, repr=False)
class WireTexts(betterproto2.Message):
    items: "list[str]" = betterproto2.field(1, betterproto2.TYPE_STRING, repeated=True)


@dataclass(eq=False, repr=False)
class WireTable(betterproto2.Message):
    items: "dict[str, WireLabel]" = betterproto2.field(
        1,
        betterproto2.TYPE_MAP,
        map_meta=betterproto2.map_meta(betterproto2.TYPE_STRING, betterproto2.TYPE_MESSAGE),
    )


@dataclass(eq=False, repr=False)
class WireRound(betterproto2.Message):
    radius: "float | None" = betterproto2.field(1, betterproto2.TYPE_DOUBLE, optional=True)


@dataclass(eq=False, repr=False)
class WireSquare(betterproto2.Message):
    side: "float" = betterproto2.field(1, betterproto2.TYPE_DOUBLE)


def _one(number: int, **more: Any) -> Any:
    return betterproto2.field(number, betterproto2.TYPE_MESSAGE, optional=True, **more)


@dataclass(eq=False, repr=False)
class WireSynthetic(betterproto2.Message):
    text: "str" = betterproto2.field(1, betterproto2.TYPE_STRING)
    count: "int | None" = betterproto2.field(2, betterproto2.TYPE_INT64, optional=True)
    state: "Mood" = betterproto2.field(3, betterproto2.TYPE_ENUM, default_factory=lambda: Mood(0))
    round: "WireRound | None" = _one(4, group="shape")
    square: "WireSquare | None" = _one(5, group="shape")
    inner: "WireLabel | None" = _one(6)
    many: "list[WireLabel]" = betterproto2.field(7, betterproto2.TYPE_MESSAGE, repeated=True)
    said: "WireTexts | None" = _one(8)
    table: "WireTable | None" = _one(9)
    added: "float | None" = betterproto2.field(10, betterproto2.TYPE_DOUBLE, optional=True)


def synthetic_descriptor() -> Descriptor:
    """Return the descriptor of the same message for protobuf's C runtime."""
    of = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="synthetic.proto", package="t", syntax="proto3")

    def message(name: str, *fields: tuple[str, str | None, dict[str, Any]]) -> Any:
        made = file.message_type.add(name=name)
        for number, (field, kind, options) in enumerate(fields, 1):
            made.field.add(
                name=field,
                number=number,
                **{"label": of.LABEL_OPTIONAL, "type": of.TYPE_MESSAGE, **options},
                type_name=f".t.{kind}" if kind else None,
            )
        return made

    text: dict[str, Any]
    number: dict[str, Any]
    text, number = {"type": of.TYPE_STRING}, {"type": of.TYPE_DOUBLE}
    enum = file.enum_type.add(name="Mood")
    enum.value.add(name="MOOD_UNSPECIFIED", number=0)
    enum.value.add(name="MOOD_BUSY_NOW", number=1)
    message("Label", ("name", None, text))
    message("Texts", ("items", None, {**text, "label": of.LABEL_REPEATED}))
    table = message("Table", ("items", "Table.ItemsEntry", {"label": of.LABEL_REPEATED}))
    entry = table.nested_type.add(name="ItemsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=of.LABEL_OPTIONAL, type=of.TYPE_STRING)
    entry.field.add(
        name="value",
        number=2,
        label=of.LABEL_OPTIONAL,
        type=of.TYPE_MESSAGE,
        type_name=".t.Label",
    )
    message("Round", ("radius", None, {**number, "proto3_optional": True, "oneof_index": 0}))
    file.message_type[-1].oneof_decl.add(name="_radius")
    message("Square", ("side", None, number))
    made = message(
        "Synthetic",
        ("text", None, text),
        ("count", None, {"type": of.TYPE_INT64, "proto3_optional": True, "oneof_index": 1}),
        ("state", "Mood", {"type": of.TYPE_ENUM}),
        ("round", "Round", {"oneof_index": 0}),
        ("square", "Square", {"oneof_index": 0}),
        ("inner", "Label", {}),
        ("many", "Label", {"label": of.LABEL_REPEATED}),
        ("said", "Texts", {}),
        ("table", "Table", {}),
        ("added", None, {**number, "proto3_optional": True, "oneof_index": 2}),
    )
    for name in ("shape", "_count", "_added"):
        made.oneof_decl.add(name=name)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool.FindMessageTypeByName("t.Synthetic")
