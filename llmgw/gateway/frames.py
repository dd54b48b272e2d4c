"""What the parent and its workers tell each other over a socket pair."""

import struct

import msgspec

from llmgw.base.errors import Unreadable
from llmgw.model.gateway import (
    EndpointDown,
    EngineLoads,
    GatewayConfig,
    ModelTraffic,
    Route,
)
from llmgw.model.keys import Key, UsageTotals
from llmgw.model.live import AskRequests, CancelRequests, RequestsEnded, RequestsSeen
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
    alone: bool = False
    """There is none to be: the table is a file's."""
    keys_sure: bool = True
    """It can ask its store: a key that it did not tell of is none."""
    routes: tuple[Route, ...] = ()
    gone_routes: tuple[str, ...] = ()
    keys: tuple[Key, ...] = ()
    gone_keys: tuple[str, ...] = ()
    config: GatewayConfig | None = None
    """None: unchanged."""
    columns: dict[str, int] = msgspec.field(default_factory=dict)
    """The cells' column of each replica in `routes`."""
    key_columns: dict[str, int] = msgspec.field(default_factory=dict)
    """The key cells' column of each key in `keys` that has limits."""
    number: int = 0
    """Which state of the table a worker has with it; the parent counts them."""


class Resume(Record, frozen=True, kw_only=True, tag_field="kind", tag="resume"):
    """Down, first of all: what the worker that had this place before has counted.

    Totals of a place go on when its worker is replaced, so that they never fall.
    """

    totals: tuple[UsageTotals, ...] = ()
    traffic: tuple[ModelTraffic, ...] = ()


class Identity(Record, frozen=True, kw_only=True, tag_field="kind", tag="identity"):
    """Down, before the table and when it changed: what TLS is spoken with. A secret."""

    certificate: bytes
    """With its chain, in PEM."""
    key: bytes


class Figures(Record, frozen=True, kw_only=True, tag_field="kind", tag="figures"):
    """Down: what engines say that they have to do, as far as it is new."""

    told: EngineLoads


class Forget(Record, frozen=True, kw_only=True, tag_field="kind", tag="forget"):
    """Down: these totals are kept elsewhere, and their keys are gone."""

    totals: tuple[UsageTotals, ...]


class Drain(Record, frozen=True, kw_only=True, tag_field="kind", tag="drain"):
    """Down: stop accepting, finish what runs within so many seconds, end."""

    seconds: float
    gently: bool = False
    """Idle connections are not closed: each gets one more reply, which says that it is the last."""


class Inquiry(Record, frozen=True, kw_only=True, tag_field="kind", tag="inquiry"):
    """Down: somebody asks for the requests in flight, or has some ended; one of both."""

    ask: AskRequests | None = None
    cancel: CancelRequests | None = None


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


class Standing(Record, frozen=True, kw_only=True, tag_field="kind", tag="standing"):
    """Up: how replicas are as this worker sees them."""

    failed: tuple[str, ...] = ()
    """Those that failed and have not answered since."""
    scores: dict[str, float] = msgspec.field(default_factory=dict)
    """What those that have any requests have to do, as the choice sees it, in requests."""


class Forgot(Record, frozen=True, kw_only=True, tag_field="kind", tag="forgot"):
    """Up: nothing is added to these totals any more, and the worker knows them no longer."""

    totals: tuple[UsageTotals, ...]


class Told(Record, frozen=True, kw_only=True, tag_field="kind", tag="told"):
    """Up: the answer to an inquiry; one of both."""

    seen: RequestsSeen | None = None
    ended: RequestsEnded | None = None


ToWorker = Resume | Identity | TableFrame | Figures | Drain | Inquiry | Forget
FromWorker = Listening | Counted | Took | Down | Waiting | Standing | Told | Forgot

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
