"""Users' keys: made, shown once, listed, revoked."""

import msgspec

from llmgw.control.api.operation import PREFIX, Call, Operation
from llmgw.control.api.shapes import KeyMade, NewKey
from llmgw.model.keys import ADMIN, READ, Key


async def keys(call: Call) -> tuple[Key, ...]:
    """Return all keys; none of them can be used by who reads this."""
    return call.plane.keys.all()


async def make_key(call: Call, body: NewKey) -> KeyMade:
    """Make a key; the answer shows it once, when the gateways that are connected know it."""
    key, text = await call.plane.keys.make(
        body.name, actor=call.caller.name, models=body.models, expires_in=body.expires_in
    )
    await call.plane.gateways.caught_up()
    return KeyMade(**msgspec.structs.asdict(key), key=text)


async def remove_key(call: Call) -> None:
    """Revoke a key; answered when the gateways that are connected refuse it."""
    await call.plane.keys.remove(call.path["id"], actor=call.caller.name)
    await call.plane.gateways.caught_up()


OPERATIONS = (
    Operation("GET", f"{PREFIX}/keys", READ, keys, "All users' keys, by name."),
    Operation(
        "POST",
        f"{PREFIX}/keys",
        ADMIN,
        make_key,
        "Make a key; the answer shows it once.",
        status=201,
    ),
    Operation("DELETE", f"{PREFIX}/keys/{{id}}", ADMIN, remove_key, "Revoke a key.", status=204),
)
