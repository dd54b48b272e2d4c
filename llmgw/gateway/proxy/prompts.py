"""What of a request tells which replica it goes to best: its prompt's beginning, its session."""

from llmgw.gateway.auth import Holder
from llmgw.gateway.proxy.body import Asked
from llmgw.gateway.proxy.requests import Request
from llmgw.gateway.refusals import Refusal
from llmgw.gateway.route.choice import Prompt
from llmgw.gateway.route.prefix import BLOCK, LEVELS, leading_hashes

SESSION = b"x-llmgw-session"
"""Header with a name of the client's choice: requests with one name go to one replica.

As far as that one is there and has not more to do than others: it is a wish, not a lock. The name
counts for the API key and the model that it comes with.
"""
SESSION_MOST = 128
"""Bytes of it."""
_LOOKED_AT = BLOCK * LEVELS[-1]


def session_refusal(request: Request) -> Refusal | None:
    """Refuse a session's name that is too long to be one."""
    if len(request.headers.get(SESSION, b"")) <= SESSION_MOST:
        return None
    words = f"the header {SESSION.decode()} may have {SESSION_MOST} bytes"
    return Refusal("invalid_value", words, SESSION.decode())


def read_prompt(request: Request, asked: Asked, model: str) -> Prompt:
    """Return what a choice between replicas of a model needs of a request."""
    seed = hash(model)
    name = request.headers.get(SESSION)
    session = None
    if name:
        session = hash((seed, _owner(request.holder), name))
    text = bytes(memoryview(asked.messages or asked.prompt)[:_LOOKED_AT])
    if len(text) < BLOCK:
        return Prompt((), session)
    if asked.tools:
        seed = hash((seed, bytes(asked.tools)))  # templates put them before the messages
    return Prompt(leading_hashes(text, seed), session)


def _owner(holder: Holder | None) -> str:
    return "" if holder is None else holder.id
