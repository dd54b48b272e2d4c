"""Which paths the gateway serves, and nothing that an engine would answer to besides (TRU-6)."""

import httptools

from llmgw.gateway.proxy.requests import Request
from llmgw.gateway.refusals import Refusal, quoted

HEALTH = b"/healthz"
API = b"/v1/"
MODELS = b"/v1/models"
FORMS = frozenset({b"/v1/audio/transcriptions", b"/v1/audio/translations"})
"""Those that take a form with a file in it; all others take a JSON object."""
SERVED = FORMS | {
    b"/v1/chat/completions",
    b"/v1/completions",
    b"/v1/responses",
    b"/v1/embeddings",
    b"/v1/rerank",
    b"/v1/audio/speech",
}
"""Paths that reach an engine."""
STREAMED = frozenset({b"/v1/chat/completions", b"/v1/completions", b"/v1/responses"})
"""Those whose answer is a stream of events when the body has `"stream": true`."""
_NOT_SERVED = {
    b"/v1/messages": "Anthropic's API is not served yet: use /v1/chat/completions",
    b"/v1/responses": "responses are not kept here: POST /v1/responses is all that is served",
    b"/v1/chat/completions": "chats are not kept here: POST /v1/chat/completions is served",
}
"""What is said of paths below these."""
_ALL = ", ".join(sorted(path.decode() for path in SERVED))


def path_of(target: bytes) -> bytes:
    """Return the path of a target, without the query, which no engine gets."""
    if target in SERVED:
        return target
    try:
        return httptools.parse_url(target).path or b"/"
    except httptools.HttpParserInvalidURLError:
        return b""


def unknown(request: Request) -> Refusal:
    """Return why a request is not served: no such path, or not with its method."""
    what = quoted(f"{request.method} {request.target.decode('latin-1')}")
    words = f"{what} is not served by this gateway"
    if request.path in SERVED:
        return Refusal("unknown_path", f"{words}: use POST")
    for path, why in _NOT_SERVED.items():
        if request.path == path or request.path.startswith(path + b"/"):
            return Refusal("unknown_path", why)
    if request.path.startswith(API):
        words = f"{words}; it serves GET {MODELS.decode()} and POST {_ALL}"
    return Refusal("unknown_path", words)
