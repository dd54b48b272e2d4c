"""A reply that llama.cpp streams to the gateway, and that its client gets whole.

llama-server looks for a client that left only when a whole second passed without a result of any
request: beside other requests that produce tokens it never looks, and what nobody waits for runs to
its end. While it streams, it notices at the next write. So it is asked to stream, also where the
client did not, and the answer is put together here: from events of which every member is known, or
not at all. Then the request is sent once more as it was written.
"""

from typing import Annotated

import msgspec

from llmgw.gateway.proxy.body import Asked
from llmgw.gateway.proxy.usage import Usage

CHAT = b"/v1/chat/completions"
TEXT = b"/v1/completions"
GATHERED_MOST = 8 << 20
"""Bytes of events of which an answer is put together; a longer one is asked for as a whole."""
JSON = b"content-type: application/json; charset=utf-8\r\n"
"""The header that the answer has in place of the stream's."""

_ERRORS = (b'data: {"error"', b"error:")
_NONE = msgspec.Raw(b"")
_FIRST = Annotated[int, msgspec.Meta(ge=0, le=0)]


class _Strict(msgspec.Struct, forbid_unknown_fields=True):
    pass


class _Delta(_Strict):
    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None


class _ChatChoice(_Strict):
    finish_reason: str | None
    index: _FIRST
    delta: _Delta


class _TextChoice(_Strict, kw_only=True):
    text: str
    index: _FIRST
    logprobs: None = None
    finish_reason: str | None


class _Event(_Strict, kw_only=True):
    created: int
    id: str
    model: str
    object: str
    system_fingerprint: str | None = None
    usage: msgspec.Raw = _NONE
    timings: msgspec.Raw = _NONE
    prompt_progress: msgspec.Raw = _NONE


class _ChatEvent(_Event, kw_only=True):
    choices: list[_ChatChoice]


class _TextEvent(_Event, kw_only=True):
    choices: list[_TextChoice]


class _Message(msgspec.Struct, omit_defaults=True):
    role: str
    content: str
    reasoning_content: str = ""


class _WholeChoice(msgspec.Struct):
    finish_reason: str
    index: int
    message: _Message


class _Answer(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The members in the order in which llama-server writes them."""

    choices: list[_WholeChoice] | list[_TextChoice]
    created: int
    model: str
    system_fingerprint: str | None = None
    object: str
    usage: msgspec.Raw
    id: str
    timings: msgspec.Raw = _NONE


_chat_event = msgspec.json.Decoder(_ChatEvent)
_text_event = msgspec.json.Decoder(_TextEvent)
_usage = msgspec.json.Decoder(Usage)
_encode = msgspec.json.Encoder().encode


def can_be_gathered(path: bytes, asked: Asked) -> bool:
    """Say whether a request's answer is the sum of its events, as far as its body tells."""
    one = all(count in {None, 1} for count in (asked.n, asked.n_cmpl, asked.best_of))
    plain = not any(
        bytes(value) not in {b"", b"null", b"false", b"[]"}
        for value in (
            asked.tools,
            asked.functions,
            asked.stream_options,
            asked.return_progress,
            asked.timings_per_token,
            asked.return_tokens,
            asked.response_fields,
            asked.echo,
        )
    )
    if asked.stream or not one or not plain or asked.n_probs:
        return False
    if asked.logprobs not in {None, False} or asked.top_logprobs:
        return False
    return path == CHAT or (path == TEXT and bytes(memoryview(asked.prompt)[:1]) == b'"')


class GatheredReply:
    """Takes the events; `rest` returns the answer.

    `failed`: it cannot be put together. `strange`: because the engine streams what is not known
    here, as it will the next time.

    Args:
        chat: it is a chat's.
    """

    __slots__ = (
        "_chat",
        "_done",
        "_finish",
        "_held",
        "_last",
        "_size",
        "_texts",
        "_thoughts",
        "failed",
        "produced",
        "strange",
    )

    def __init__(self, *, chat: bool) -> None:
        self._chat = chat
        self._held = b""
        self._size = 0
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._finish: str | None = None
        self._last: _Event | None = None
        self._done = False
        self.failed = False
        self.strange = False
        self.produced = 0
        """Events with text: about one a token."""

    def feed(self, data: bytes) -> bytes:
        """Take what came; nothing is passed on."""
        self._size += len(data)
        self.failed = self.failed or self._size > GATHERED_MOST
        events = (self._held + data).split(b"\n\n")
        self._held = events.pop()
        for event in events:
            if not self.failed and not self._take(event):
                self.failed = True
                self.strange = not event.startswith(_ERRORS)
        return b""

    def rest(self) -> bytes:
        """Return the whole answer, once the stream has ended; nothing when it `failed`."""
        last, finish = self._last, self._finish
        if self.failed or last is None or finish is None or not self._done or not last.usage:
            self.failed = True
            return b""
        text = "".join(self._texts)
        choices: list[_WholeChoice] | list[_TextChoice]
        if self._chat:
            message = _Message("assistant", text, "".join(self._thoughts))
            choices = [_WholeChoice(finish, 0, message)]
        else:
            choices = [_TextChoice(text=text, index=0, finish_reason=finish)]
        return _encode(
            _Answer(
                choices=choices,
                created=last.created,
                model=last.model,
                object="chat.completion" if self._chat else last.object,
                usage=last.usage,
                id=last.id,
                system_fingerprint=last.system_fingerprint,
                timings=last.timings,
            )
        )

    @property
    def usage(self) -> Usage | None:
        """Return what the engine said; None when it said nothing that can be read."""
        try:
            return _usage.decode(self._last.usage) if self._last and self._last.usage else None
        except msgspec.DecodeError:
            return None

    def _take(self, event: bytes) -> bool:
        """Take one event; return whether it is one that is understood to its last member."""
        if event.startswith(b":"):
            return True
        if not event.startswith(b"data: ") or b"\n" in event or self._done:
            return False
        data = event[6:]
        if data == b"[DONE]":
            self._done = True
            return True
        try:
            read = _chat_event.decode(data) if self._chat else _text_event.decode(data)
        except (msgspec.DecodeError, RecursionError):
            return False
        self._last = read
        return all(map(self._take_choice, read.choices))

    def _take_choice(self, choice: _ChatChoice | _TextChoice) -> bool:
        if isinstance(choice, _TextChoice):
            text, thought = choice.text, ""
        else:
            text, thought = choice.delta.content or "", choice.delta.reasoning_content or ""
            if choice.delta.role not in {None, "assistant"}:
                return False
        self._texts.append(text)
        self._thoughts.append(thought)
        self.produced += bool(text or thought)
        self._finish = choice.finish_reason or self._finish
        return True
