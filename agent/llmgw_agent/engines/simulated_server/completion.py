"""A completion: what was asked for, and the answer in OpenAI's shapes."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from llmgw_agent.engines.simulated_server.arguments import Arguments
from llmgw_agent.engines.simulated_server.engine import pieces

_FINGERPRINT = "simulated"
_TOKENS_A_MESSAGE = 3


class Wrong(Exception):
    """A request that can't be served; told as an error in the engines' shape."""

    def __init__(
        self, status: int, words: str, kind: str = "invalid_request_error", **more: int
    ) -> None:
        super().__init__(words)
        self.status = status
        self._body: dict[str, Any] = {"code": status, "message": words, "type": kind, **more}

    def body(self) -> dict[str, Any]:
        """Return the error's body."""
        return self._body


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks for, checked."""

    chat: bool
    prompt_tokens: int
    tokens: int
    """How many the reply has."""
    finish_reason: str
    stream: bool
    include_usage: bool


def read_completion(body: dict[str, Any], arguments: Arguments, *, chat: bool) -> Asked:
    """Return what is asked for.

    Raises:
        Wrong: it can't be served.
    """
    model = body.get("model")
    if arguments.strict_model and model != arguments.model:
        raise Wrong(404, f"model {model!r} is not served here", "not_found_error")
    prompt = _chat_tokens(body) if chat else _prompt_tokens(body)
    if prompt > arguments.context:
        words = (
            f"request ({prompt} tokens) exceeds the available context size "
            f"({arguments.context} tokens), try increasing it"
        )
        kind = "exceed_context_size_error"
        raise Wrong(400, words, kind, n_prompt_tokens=prompt, n_ctx=arguments.context)
    wanted = _most_tokens(body)
    room = arguments.context - prompt
    whole = arguments.reply_tokens if body.get("ignore_eos") is not True else room
    tokens = min(whole, room, wanted if wanted is not None else whole)
    options = body.get("stream_options")
    return Asked(
        chat=chat,
        prompt_tokens=prompt,
        tokens=tokens,
        finish_reason="stop" if tokens == arguments.reply_tokens else "length",
        stream=body.get("stream") is True,
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
    )


class Completion:
    """One reply. Its pieces are made once, so that a token costs one join."""

    def __init__(self, asked: Asked, name: str, created: int, model: str) -> None:
        self._asked = asked
        self._base = {
            "id": name,
            "object": "chat.completion.chunk" if asked.chat else "text_completion",
            "created": created,
            "model": model,
            "system_fingerprint": _FINGERPRINT,
        }
        part = {"delta": {"content": "\0"}} if asked.chat else {"text": "\0"}
        marked = self._chunk([{"index": 0, **part, "finish_reason": None}])
        self._before, _, self._after = marked.partition(b'"\\u0000"')

    def opening(self) -> Iterator[bytes]:
        """Yield what comes before the first token."""
        if self._asked.chat:
            delta = {"role": "assistant", "content": None}
            yield self._chunk([{"index": 0, "delta": delta, "finish_reason": None}])

    def token(self, word: str) -> bytes:
        """Return one token's event."""
        return b"%b%b%b" % (self._before, json.dumps(word).encode(), self._after)

    def closing(self) -> Iterator[bytes]:
        """Yield what comes after the last token."""
        part: dict[str, Any] = {"delta": {}} if self._asked.chat else {"text": ""}
        yield self._chunk([{"index": 0, **part, "finish_reason": self._asked.finish_reason}])
        if self._asked.include_usage:
            yield self._chunk([], {"usage": self._usage()})
        yield b"[DONE]"

    def whole(self, words: list[str]) -> dict[str, Any]:
        """Return the reply in one piece."""
        text = "".join(words)
        asked = self._asked
        message = {"message": {"role": "assistant", "content": text}}
        part = message if asked.chat else {"text": text, "logprobs": None}
        choice = {"index": 0, **part, "finish_reason": asked.finish_reason}
        kind = "chat.completion" if asked.chat else "text_completion"
        return {**self._base, "object": kind, "choices": [choice], "usage": self._usage()}

    def _usage(self) -> dict[str, Any]:
        asked = self._asked
        return {
            "prompt_tokens": asked.prompt_tokens,
            "completion_tokens": asked.tokens,
            "total_tokens": asked.prompt_tokens + asked.tokens,
            "prompt_tokens_details": {"cached_tokens": 0},
        }

    def _chunk(
        self, choices: list[dict[str, Any]], more: Mapping[str, object] | None = None
    ) -> bytes:
        return json.dumps({"choices": choices, **self._base, **(more or {})}).encode()


def _most_tokens(body: dict[str, Any]) -> int | None:
    for name in ("max_completion_tokens", "max_tokens", "n_predict"):
        value = body.get(name)
        if value is None or value == -1:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= 10**9:
            raise Wrong(400, f"{name} is not a number of tokens")
        return value
    return None


def _prompt_tokens(body: dict[str, Any]) -> int:
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise Wrong(400, "prompt is not a text")
    return max(1, len(pieces(prompt)))


def _chat_tokens(body: dict[str, Any]) -> int:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Wrong(400, "messages is not a list of messages")
    return sum(_TOKENS_A_MESSAGE + len(pieces(_content(message))) for message in messages)


def _content(message: object) -> str:
    if not isinstance(message, dict):
        raise Wrong(400, "a message is no object")
    content = message.get("content")
    if isinstance(content, list):
        parts = [part.get("text", "") for part in content if isinstance(part, dict)]
        content = "".join(part for part in parts if isinstance(part, str))
    if content is not None and not isinstance(content, str):
        raise Wrong(400, "a message's content is no text")
    return content or ""
