"""One request through a gateway, as a user sends it: streamed, with a key."""

import http.client
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from llmgw.base.errors import Refused, Unreachable, Unreadable
from llmgw.base.secrets import Secret


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. Seconds."""

    text: str
    prompt_tokens: int | None
    completion_tokens: int | None
    first_token: float
    """From the request to the first token."""
    tokens_per_second: float | None
    """From the first token to the last, by the reply's own count; None when it was not told."""


def complete(
    gateway: str,
    key: Secret,
    model: str,
    prompt: str,
    *,
    tokens: int,
    on_text: Callable[[str], None],
    timeout: float = 120.0,
) -> Answer:
    """Ask for a completion and return it; each piece is handed to `on_text` as it arrives.

    Raises:
        Refused: the gateway answered with an error; its own words are quoted.
        Unreachable: there is no gateway, or the reply broke.
    """
    parts = urlsplit(gateway)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
    body = {
        "model": model,
        "prompt": prompt,
        "max_tokens": tokens,
        "temperature": 0.7,
        "seed": 7,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key.reveal()}"}
    try:
        begin = time.monotonic()
        connection.request("POST", "/v1/completions", json.dumps(body), headers)
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise Refused(f"{gateway}: {_error(response)}")
        return _read(response, begin, on_text)
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"{gateway}: {error}") from error
    finally:
        connection.close()


def known(gateway: str, key: Secret) -> bool:
    """Say whether a gateway knows a key: a new one reaches it within a second."""
    parts = urlsplit(gateway)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    try:
        connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {key.reveal()}"})
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _read(response: Any, begin: float, on_text: Callable[[str], None]) -> Answer:  # noqa: ANN401
    words: list[str] = []
    usage: dict[str, int] = {}
    first = last = begin
    for line in response:
        if not line.startswith(b"data:") or line[5:].strip() == b"[DONE]":
            continue
        event = json.loads(line[5:])
        if "error" in event:
            raise Refused(f"the reply broke off: {event['error'].get('message')}")
        usage = event.get("usage") or usage
        piece = "".join(choice.get("text") or "" for choice in event.get("choices", ()))
        if piece:
            last = time.monotonic()
            first = first if words else last
            words.append(piece)
            on_text(piece)
    if not words:
        raise Unreadable("the reply held no text")
    count = usage.get("completion_tokens")
    span = last - first
    # The first token is the start of the span, so one token less was made within it.
    speed = (count - 1) / span if count is not None and count > 1 and span > 0 else None
    return Answer("".join(words), usage.get("prompt_tokens"), count, first - begin, speed)


def _error(response: Any) -> str:  # noqa: ANN401
    text = response.read(65536)
    try:
        message = json.loads(text)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = text.decode(errors="replace").strip()
    return f"{response.status} {message}"
