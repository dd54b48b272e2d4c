"""Records to bytes and back.

What goes over the streams is written and read by protobuf's C runtime; what is said once when a
machine joins is betterproto2's, after the C runtime has parsed it (docs/adr/0009).
"""

from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec
from google.protobuf.message import DecodeError
from grpclib.encoding.base import CodecBase

from llmgw.base.errors import LlmgwError, Unreadable
from llmgw.link.identity import GATEWAY as GATEWAY_ROLE
from llmgw.link.identity import NODE
from llmgw.model.link import AgentControl, AgentMessage, GatewayControl, GatewayMessage
from llmgw_proto import convert, fast

R = TypeVar("R", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Service:
    """One of the two services with a stream a peer: what goes up, what goes down, for whom."""

    name: str
    route: str
    role: str
    up: type[msgspec.Struct]
    down: type[msgspec.Struct]


AGENT: Final = Service(
    name="agent",
    route="/llmgw.v1.AgentService/Connect",
    role=NODE,
    up=AgentMessage,
    down=AgentControl,
)
GATEWAY: Final = Service(
    name="gateway",
    route="/llmgw.v1.GatewayService/Connect",
    role=GATEWAY_ROLE,
    up=GatewayMessage,
    down=GatewayControl,
)
STREAMED: Final = (AgentMessage, AgentControl, GatewayMessage, GatewayControl)
SERVICES: Final = {service.name: service for service in (AGENT, GATEWAY)}

GET_AUTHORITY: Final = "/llmgw.v1.JoinService/GetAuthority"
JOIN: Final = "/llmgw.v1.JoinService/Join"

SMALL: Final = 16 << 10
"""Bytes of a message that is read as it is."""
LIST_MOST: Final = 5000
"""Items that are taken of one list of a larger one: more than any bound of `model.bounds`."""
ITEMS_MOST: Final = 20_000
"""Items that all its lists may hold: so many are read in about 50 ms."""


def encode(record: msgspec.Struct) -> bytes:
    """Return a record's message.

    Raises:
        Unreadable: a value does not fit its field.
    """
    if isinstance(record, STREAMED):
        try:
            return convert.to_fast(record).SerializeToString()
        except Unreadable:
            convert.to_wire(record)  # slower, and says which field it is
            raise
    return bytes(convert.to_wire(record))


def decode(data: bytes, record: type[R]) -> R:
    """Return the record of a message.

    betterproto2 takes malformed messages for good ones and raises nearly anything on others. So the
    C runtime parses first, and betterproto2 sees what that one wrote again, without what it does
    not know: every field of the type it should have, every choice made once. What comes over a
    stream is never betterproto2's: a message at the limit would take it ten seconds.

    Raises:
        Unreadable: the bytes are not such a message, or it lacks what the record needs.
    """
    try:
        message = fast.message_class(record.__name__).FromString(data)
        if record is AgentMessage and len(data) > SMALL:
            fast.thin(message, LIST_MOST, ITEMS_MOST)
        if record in STREAMED:
            return convert.to_record(message, record)
        message.DiscardUnknownFields()
        plain = convert.message_of(record).parse(message.SerializeToString())
        return convert.to_record(plain, record)
    except LlmgwError:
        raise
    except DecodeError as error:
        raise Unreadable(f"{len(data)} bytes that are not a {record.__name__}") from error
    except Exception as error:
        words = f"{len(data)} bytes that can't be read as {record.__name__}: {error!r}"
        raise Unreadable(words) from error


class BytesCodec(CodecBase):
    """Hands bytes through: this room encodes before grpclib and decodes after it."""

    @property
    def __content_subtype__(self) -> str:
        return "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:  # noqa: ANN401, ARG002
        """Return the bytes as they are."""
        data: bytes = message
        return data

    def decode(self, data: bytes, message_type: Any) -> bytes:  # noqa: ANN401, ARG002
        """Return the bytes as they are."""
        return data
