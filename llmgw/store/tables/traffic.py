"""What gateways counted, a row for each."""

from collections.abc import Sequence

import msgspec
from sqlite_utils import Database

from llmgw.store.interface import StoredTraffic
from llmgw.store.tables.rows import change, every

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(StoredTraffic).decode


def every_gateway(db: Database) -> tuple[StoredTraffic, ...]:
    """Return what all gateways counted, by gateway."""
    return tuple(
        _decode(row["value"]) for row in every(db, "SELECT value FROM traffic ORDER BY gateway")
    )


def put(db: Database, counted: Sequence[StoredTraffic]) -> None:
    """Replace what these gateways counted."""
    for one in counted:
        change(
            db,
            "INSERT INTO traffic (gateway, value) VALUES (?, ?)"
            " ON CONFLICT (gateway) DO UPDATE SET value = excluded.value",
            (one.gateway, _encode(one).decode()),
        )
