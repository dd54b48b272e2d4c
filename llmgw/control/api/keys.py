"""Users' keys: made, shown once, listed, changed, revoked; what they used of their limits."""

import msgspec

from llmgw.control.api.operation import PREFIX, Call, Operation
from llmgw.control.api.shapes import KeyEdit, KeyMade, KeyUse, NewKey
from llmgw.control.keys import expiry
from llmgw.model.keys import ADMIN, LIMITS, READ, Key, QuotaFigures


async def keys(call: Call) -> tuple[Key, ...]:
    """Return all keys; none of them can be used by who reads this."""
    return call.plane.keys.all()


async def quotas(call: Call) -> tuple[KeyUse, ...]:
    """Return what every key that has limits used of them, by name."""
    lent = call.plane.gateways.quotas
    over = frozenset(lent.over())
    return tuple(
        KeyUse(id=one.id, used=lent.used_of_late(one.id), over=one.id in over)
        for one in call.plane.keys.all()
        if any(getattr(one, limit) is not None for limit in LIMITS)
    )


async def make_key(call: Call, body: NewKey) -> KeyMade:
    """Make a key; the answer shows it once, when the gateways that are connected know it."""
    made, text = await call.plane.keys.make(
        body.name,
        actor=call.caller.name,
        models=body.models,
        expires_in=body.expires_in,
        limits=QuotaFigures(**{limit: getattr(body, limit) for limit in LIMITS}),
        priority=body.priority,
    )
    await call.plane.gateways.caught_up()
    return KeyMade(**msgspec.structs.asdict(made), key=text)


async def change_key(call: Call, body: KeyEdit) -> Key:
    """Change a key; answered when the gateways that are connected keep to it."""
    changes = {
        name: value
        for name, value in msgspec.structs.asdict(body).items()
        if value is not msgspec.UNSET
    }
    if "expires_in" in changes:
        changes["expires"] = expiry(call.plane.clock.now(), changes.pop("expires_in"))
    changed = await call.plane.keys.change(call.path["id"], actor=call.caller.name, changes=changes)
    await call.plane.gateways.caught_up()
    return changed


async def remove_key(call: Call) -> None:
    """Revoke a key; answered when the gateways that are connected refuse it."""
    await call.plane.keys.remove(call.path["id"], actor=call.caller.name)
    await call.plane.gateways.caught_up()


OPERATIONS = (
    Operation("GET", f"{PREFIX}/keys", READ, keys, "All users' keys, by name."),
    Operation("GET", f"{PREFIX}/quotas", READ, quotas, "What keys used of their limits."),
    Operation(
        "POST",
        f"{PREFIX}/keys",
        ADMIN,
        make_key,
        "Make a key; the answer shows it once.",
        status=201,
    ),
    Operation(
        "PUT",
        f"{PREFIX}/keys/{{id}}",
        ADMIN,
        change_key,
        "Change a key: what is not named stays.",
    ),
    Operation("DELETE", f"{PREFIX}/keys/{{id}}", ADMIN, remove_key, "Revoke a key.", status=204),
)
