"""What the parent and its workers tell each other over a socket pair."""

import struct

import msgspec

from llmgw.base.errors import Unreadable
from llmgw.model.gateway import EndpointDown, GatewayConfig, ModelTraffic, Route
from llmgw.model.keys import Key, UsageTotals
from llmgw.model.record import Record

FRAME_MOST = 64 << 20
"""Bytes of one frame: a whole table of the largest cluster has a tenth of it."""
_LENGTH = struct.Struct(">I")


class TableFrame(Record, frozen=True, kw_only=True, tag_field="kind", tag="table"):
    """Down: a whole table (`listing`) or what changed of it."""

    listing: bool = False
    received: bool = False
    """A control plane, or the file kept from one, has given a table."""
    current: bool = False
    """The control plane is there now."""
    routes: tuple[Route, ...] = ()
    gone_routes: tuple[str, ...] = ()
    keys: tuple[Key, ...] = ()
    gone_keys: tuple[str, ...] = ()
    config: GatewayConfig | None = None
    """None: unchanged."""
    columns: dict[str, int] = msgspec.field(default_factory=dict)
    """The cells' column of each replica in `routes`."""
    number: int = 0
    """Which state of the table a worker has with it; the parent counts them."""


class Resume(Record, frozen=True, kw_only=True, tag_field="kind", tag="resume"):
    """Down, first of all: what the worker that had this place before has counted.

    Totals of a place go on when its worker is replaced, so that they never fall.
    """

    totals: tuple[UsageTotals, ...] = ()
    traffic: tuple[ModelTraffic, ...] = ()


class Drain(Record, frozen=True, kw_only=True, tag_field="kind", tag="drain"):
    """Down: stop accepting, finish what runs within so many seconds, end."""

    seconds: float


class Listening(Record, frozen=True, kw_only=True, tag_field="kind", tag="listening"):
    """Up: the worker accepts connections."""

    pid: int


class Counted(Record, frozen=True, kw_only=True, tag_field="kind", tag="counted"):
    """Up: totals of the worker's place, those that changed."""

    totals: tuple[UsageTotals, ...] = ()
    traffic: tuple[ModelTraffic, ...] = ()


class Took(Record, frozen=True, kw_only=True, tag_field="kind", tag="took"):
    """Up: the worker serves by the table of this number."""

    number: int


class Down(Record, frozen=True, kw_only=True, tag_field="kind", tag="down"):
    """Up: an engine could not be reached."""

    endpoint: EndpointDown


class Waiting(Record, frozen=True, kw_only=True, tag_field="kind", tag="waiting"):
    """Up: how many requests wait at this worker for each model that nothing serves."""

    counts: dict[str, int]


ToWorker = Resume | TableFrame | Drain
FromWorker = Listening | Counted | Took | Down | Waiting

_encode = msgspec.msgpack.Encoder().encode
decode_to_worker = msgspec.msgpack.Decoder(ToWorker).decode
decode_from_worker = msgspec.msgpack.Decoder(FromWorker).decode


def framed(message: ToWorker | FromWorker) -> bytes:
    """Return a message as it is written."""
    body = _encode(message)
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that are whole now.

        Raises:
            Unreadable: a frame is longer than any may be.
        """
        self._held += data
        frames = []
        while len(self._held) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._held)
            if length > FRAME_MOST:
                raise Unreadable(f"a frame of {length} bytes between gateway and worker")
            end = _LENGTH.size + length
            if len(self._held) < end:
                break
            frames.append(bytes(self._held[_LENGTH.size : end]))
            del self._held[:end]
        return frames
