"""Every way in which a gateway says no, in the shape that OpenAI's clients read."""

import json
from http import HTTPStatus

import msgspec

REQUEST = "invalid_request_error"
PERMISSION = "permission_error"
SERVER = "server_error"
REQUESTS = "requests"
TOKENS = "tokens"

RETRY_AFTER = 5
"""Seconds after which a client may ask again for a model that could not be had."""
RETRY_STOPPED = 30
"""The same of a system that an operator stopped."""

CODES: dict[str, tuple[int, str, str]] = {
    "bad_http": (400, REQUEST, "The request is not HTTP as this gateway accepts it."),
    "headers_too_large": (431, REQUEST, "The request's head is larger than 64 KiB or 100 headers."),
    "body_too_large": (
        413,
        REQUEST,
        "The body is larger than gateway.request_body_bytes.",
    ),
    "bodies_full": (
        503,
        SERVER,
        "The bodies of the requests that a worker of the gateway holds fill 1 GiB.",
    ),
    "request_timeout": (408, REQUEST, "The request did not arrive within gateway.client_timeout."),
    "http_version": (505, REQUEST, "Only HTTP/1.0 and HTTP/1.1 are spoken."),
    "unsupported_encoding": (415, REQUEST, "Compressed request bodies are not taken."),
    "invalid_json": (400, REQUEST, "The body is not the JSON object that the path wants."),
    "invalid_form": (400, REQUEST, "The body is not the form that the path wants."),
    "invalid_value": (400, REQUEST, "A value in the body is of the wrong kind or out of bounds."),
    "missing_api_key": (401, REQUEST, "No API key was sent."),
    "invalid_api_key": (401, REQUEST, "The API key is not known."),
    "expired_api_key": (401, REQUEST, "The API key has ended."),
    "model_not_allowed": (403, PERMISSION, "The API key may not use this model."),
    "over_requests_per_minute": (429, REQUESTS, "The API key has used its requests per minute."),
    "over_tokens_per_minute": (429, TOKENS, "The API key has used its tokens per minute."),
    "over_tokens_per_day": (429, TOKENS, "The API key has used its tokens per day."),
    "over_concurrent": (429, REQUESTS, "As many requests of the API key run as it may have."),
    "unknown_path": (404, REQUEST, "The gateway does not serve this path."),
    "model_not_found": (404, REQUEST, "No model of this name is in the catalog."),
    "system_stopped": (503, SERVER, "An operator stopped serving: setting serving.stopped."),
    "no_table": (503, SERVER, "The gateway has not heard from a control plane yet."),
    "key_not_known_yet": (503, SERVER, "The key may be new, and nobody can ask the store."),
    "no_replica": (503, SERVER, "The model is known and nothing serves it now."),
    "replicas_full": (503, SERVER, "Each replica has gateway.replica_connections requests."),
    "queue_full": (503, SERVER, "Every replica is full, and as many requests wait as may."),
    "queue_timeout": (503, SERVER, "No replica had room within gateway.queue_for."),
    "engine_unreachable": (503, SERVER, "No replica of the model could be connected to."),
    "gateway_exhausted": (503, SERVER, "The gateway's machine is out of files, ports or memory."),
    "too_many_connections": (503, SERVER, "A worker has as many connections as it has files for."),
    "engine_failed": (502, SERVER, "The engine's connection or reply broke."),
    "fallback_failed": (502, SERVER, "The provider that stands in for the model refused."),
    "engine_timeout": (504, SERVER, "The engine did not answer, or stopped, for too long."),
    "internal": (500, SERVER, "The gateway met a fault of its own, which its log has."),
    "cancelled_by_operator": (403, PERMISSION, "An operator ended the request."),
    "gateway_stopping": (503, SERVER, "The gateway is being stopped."),
}
"""Code: status, OpenAI's type, and what it means. The words of one refusal say more."""

REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}


class Refusal(msgspec.Struct, frozen=True):
    """One request that is not served. `retry_after` is in seconds."""

    code: str
    message: str
    param: str | None = None
    retry_after: int | None = None

    @property
    def status(self) -> int:
        """Return the HTTP status."""
        return CODES[self.code][0]

    def body(self) -> bytes:
        """Return the JSON that the client reads."""
        return error_body(self.code, self.message, self.param)

    def headers(self) -> bytes:
        """Return the headers that belong to it, each with its line end."""
        lines = b"content-type: application/json\r\n"
        if self.retry_after is not None:
            lines += b"retry-after: %d\r\n" % max(1, self.retry_after)
        if self.status == HTTPStatus.UNAUTHORIZED:
            lines += b"www-authenticate: Bearer\r\n"
        return lines


def system_stopped() -> Refusal:
    """Refuse what is asked of a system that an operator stopped."""
    words = "an operator has stopped serving on this system"
    return Refusal("system_stopped", words, None, RETRY_STOPPED)


def error_body(code: str, message: str, param: str | None = None) -> bytes:
    """Return an error in OpenAI's shape."""
    error = {"message": message, "type": CODES[code][1], "param": param, "code": code}
    # ASCII with escapes: no control character and no half a surrogate reaches a terminal.
    return json.dumps({"error": error}, separators=(",", ":")).encode()


def error_event(code: str, message: str) -> bytes:
    """Return an error as the last event of a stream."""
    return b"data: " + error_body(code, message) + b"\n\n"


def quoted(text: str, most: int = 120) -> str:
    """Return foreign text for a message: bounded, control characters escaped."""
    shown = text if len(text) <= most else text[: most - 1] + "…"
    return repr(shown)
