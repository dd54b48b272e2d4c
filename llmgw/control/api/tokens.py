"""Operators' tokens and one-time join tokens."""

import msgspec

from llmgw.control.api.operation import PREFIX, Call, Operation
from llmgw.control.api.shapes import JoinTokenMade, NewJoinToken, NewToken, TokenMade
from llmgw.model.keys import ADMIN, Token


async def tokens(call: Call) -> tuple[Token, ...]:
    """Return all operators' tokens; none of them can be used by who reads this."""
    return call.plane.tokens.all()


async def make_token(call: Call, body: NewToken) -> TokenMade:
    """Make an operator's token; the answer shows it once."""
    token, text = await call.plane.tokens.make(
        body.role, body.name, actor=call.caller.name, expires_in=body.expires_in
    )
    return TokenMade(**msgspec.structs.asdict(token), token=text)


async def remove_token(call: Call) -> None:
    """Revoke an operator's token."""
    await call.plane.tokens.remove(call.path["id"], actor=call.caller.name)


async def make_join_token(call: Call, body: NewJoinToken) -> JoinTokenMade:
    """Make a one-time token with which a node or a gateway joins."""
    token, text = await call.plane.join_token(body.role, body.subject, actor=call.caller.name)
    return JoinTokenMade(token=text, expires=token.expires)


OPERATIONS = (
    Operation("GET", f"{PREFIX}/tokens", ADMIN, tokens, "All operators' tokens, by name."),
    Operation(
        "POST",
        f"{PREFIX}/tokens",
        ADMIN,
        make_token,
        "Make an operator's token; the answer shows it once.",
        status=201,
    ),
    Operation(
        "DELETE", f"{PREFIX}/tokens/{{id}}", ADMIN, remove_token, "Revoke a token.", status=204
    ),
    Operation(
        "POST",
        f"{PREFIX}/join-tokens",
        ADMIN,
        make_join_token,
        "Make a one-time token with which a node or a gateway joins.",
        status=201,
    ),
)
