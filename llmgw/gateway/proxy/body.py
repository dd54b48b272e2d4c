"""What the gateway reads of a request's body, and the three things that it may change in it.

A body is passed on byte for byte. Edited, in place, are only the model's name (when the engine
answers to another), `stream_options` (so that the engine says what a streamed reply used) and, for
llama.cpp, `return_progress` and `stream` (without which it does not notice that a client left).
"""

import re
from collections.abc import Iterator
from typing import Annotated

import msgspec

from llmgw.gateway.refusals import Refusal, quoted
from llmgw.model.plainwords import bound_words

NAME_MOST = 512
"""Characters of a model's name."""
SCAN_MOST = 500_000
"""Strings and brackets that a body may hold when a member has to be found in it."""
OPTIONS_NESTED = 64
"""Lists and objects in the options of a stream: there is one, and nesting may not be endless."""

# Whole numbers are read as floats too: clients write 10.0, engines take it, and only bounds matter.
Count = Annotated[float, msgspec.Meta(ge=-1, le=2**31 - 1)]
Copies = Annotated[float, msgspec.Meta(ge=1, le=128)]
Number = Annotated[float, msgspec.Meta(ge=-1e6, le=1e6)]
Seed = Annotated[float, msgspec.Meta(ge=-(2**63), le=2**64)]


class Asked(msgspec.Struct):
    """What is read of a body; everything else is the engine's business.

    The numbers are here for their bounds alone: an engine sees none that could overflow it.
    """

    model: Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_MOST)]
    stream: bool | None = None
    stream_options: msgspec.Raw = msgspec.Raw(b"")
    return_progress: msgspec.Raw = msgspec.Raw(b"")
    messages: msgspec.Raw = msgspec.Raw(b"")
    prompt: msgspec.Raw = msgspec.Raw(b"")
    tools: msgspec.Raw = msgspec.Raw(b"")
    functions: msgspec.Raw = msgspec.Raw(b"")
    echo: msgspec.Raw = msgspec.Raw(b"")
    response_fields: msgspec.Raw = msgspec.Raw(b"")
    return_tokens: msgspec.Raw = msgspec.Raw(b"")
    timings_per_token: msgspec.Raw = msgspec.Raw(b"")
    n: Copies | None = None
    n_cmpl: Copies | None = None
    best_of: Copies | None = None
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    n_predict: Count | None = None
    min_tokens: Count | None = None
    top_logprobs: Count | None = None
    logprobs: bool | Count | None = None
    n_probs: Count | None = None
    n_keep: Count | None = None
    n_discard: Count | None = None
    n_indent: Count | None = None
    min_keep: Count | None = None
    repeat_last_n: Count | None = None
    dry_penalty_last_n: Count | None = None
    dry_allowed_length: Count | None = None
    t_max_predict_ms: Count | None = None
    truncate_prompt_tokens: Count | None = None
    top_k: Count | None = None
    seed: Seed | None = None
    temperature: Number | None = None
    top_p: Number | None = None
    min_p: Number | None = None
    presence_penalty: Number | None = None
    frequency_penalty: Number | None = None
    repetition_penalty: Number | None = None
    repeat_penalty: Number | None = None
    length_penalty: Number | None = None
    typical_p: Number | None = None
    top_n_sigma: Number | None = None
    mirostat: Number | None = None
    mirostat_tau: Number | None = None
    mirostat_eta: Number | None = None
    dynatemp_range: Number | None = None
    dynatemp_exponent: Number | None = None
    xtc_probability: Number | None = None
    xtc_threshold: Number | None = None
    dry_multiplier: Number | None = None
    dry_base: Number | None = None


class FormAsked(Asked, kw_only=True):
    """The same of a form."""

    model_at: tuple[int, int]
    """Where in the body the model's name begins and ends."""


class _Options(msgspec.Struct):
    include_usage: bool | None = None


_LOOKED_AT = frozenset(Asked.__struct_fields__)
_members_of = msgspec.json.Decoder(dict[str, msgspec.Raw])
_asked = msgspec.json.Decoder(Asked)
_options = msgspec.json.Decoder(_Options)
_AT = re.compile(r" - at `\$\.?([^`]*)`$")


def read_body(body: bytes) -> Asked | Refusal:
    """Return what the gateway needs of a body, or why it is refused."""
    try:
        if not body.isascii():
            body.decode()  # strings that are only skipped are not looked into
        asked = _asked.decode(body)
        return _misspelt(body) or _options_refusal(asked) or asked
    except msgspec.ValidationError as error:
        words = str(error)
        at = _AT.search(words)
        param = at[1] if at is not None and at[1] else _param(words)
        return Refusal("invalid_value", bound_words(_AT.sub("", words)), param)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return Refusal("invalid_json", f"the body is not a JSON object: {error}")


def wants_usage(asked: Asked) -> bool:
    """Say whether the client itself asked for the usage of a streamed reply."""
    options = bytes(asked.stream_options)
    return options not in {b"", b"null"} and _options.decode(options).include_usage is True


def ask_for_usage(body: bytes, asked: Asked) -> bytes | Refusal:
    """Return the body with `stream_options.include_usage` set, all else unchanged."""
    options = bytes(asked.stream_options)
    if not options:
        return _appended(body, b'"stream_options":{"include_usage":true}')
    written = _with_usage(options)
    if isinstance(written, Refusal):
        return written
    return _replace(body, "stream_options", options, written)


def _options_refusal(asked: Asked) -> Refusal | None:
    """Say whether the options of a stream can't be edited, which they may have to be."""
    options = bytes(asked.stream_options)
    if not options:
        return None
    if options.count(b"{") + options.count(b"[") > OPTIONS_NESTED:
        words = f"the options of a stream hold more than {OPTIONS_NESTED} lists and objects"
        return Refusal("invalid_value", words, "stream_options")
    try:
        wants_usage(asked)
    except msgspec.ValidationError as error:
        return Refusal("invalid_value", bound_words(str(error)), "stream_options")
    written = _with_usage(options)
    return written if isinstance(written, Refusal) else None


def _with_usage(options: bytes) -> bytes | Refusal:
    """Return the options of a stream, decoded and written anew, with `include_usage` set."""
    try:
        members = {} if options == b"null" else msgspec.json.decode(options)
        members["include_usage"] = True
        return msgspec.json.encode(members)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        words = f"the options of a stream cannot be read: {error}"
        return Refusal("invalid_value", bound_words(words), "stream_options")


def ask_for_progress(body: bytes) -> bytes:
    """Return the body with `return_progress` set; it does not say anything about it yet.

    llama-server looks for a client that left once a second, and not at all while results of other
    requests keep coming. While it writes how far a prompt is, it notices at the next write.
    """
    return _appended(body, b'"return_progress":true')


def ask_for_stream(body: bytes) -> bytes:
    """Return the body of a request that wants no stream with all that asks for one, and its usage.

    Nothing is said in it about options of a stream yet.
    """
    edited = _replace(body, "stream", None, b"true") if b'"stream"' in body else None
    if not isinstance(edited, bytes):
        edited = _appended(body, b'"stream":true')
    return ask_for_progress(_appended(edited, b'"stream_options":{"include_usage":true}'))


def rename_model(body: bytes, asked: Asked, name: str) -> bytes | Refusal:
    """Return the body with another model's name, all else unchanged."""
    if isinstance(asked, FormAsked):
        begin, end = asked.model_at
        return body[:begin] + name.encode() + body[end:]
    edited = _replace(body, "model", None, msgspec.json.encode(name))
    if isinstance(edited, Refusal):
        return edited
    # A name that is spelled with escapes, or twice, could have hidden the member that counts.
    again = read_body(edited)
    if isinstance(again, Refusal) or again.model != name:
        return Refusal("invalid_value", "the body names its model in a way that cannot be edited")
    return edited


def _misspelt(body: bytes) -> Refusal | None:
    """Refuse a member that is one we look at but for the case of its letters.

    Engines in Go take it for that one: what a key may use and what is counted would be passed by.

    Raises:
        msgspec.DecodeError: the body is no JSON object.
    """
    for name in _members_of.decode(body):
        if name not in _LOOKED_AT and name.casefold() in _LOOKED_AT:
            words = f"write the member {quoted(name)} in small letters"
            return Refusal("invalid_value", words, bound_words(name))
    return None


def _param(words: str) -> str | None:
    missing = re.search(r"required field `([^`]+)`", words)
    return missing[1] if missing else None


def _appended(body: bytes, member: bytes) -> bytes:
    end = body.rindex(b"}")
    return b"%b,%b%b" % (body[:end], member, body[end:])


def _replace(body: bytes, name: str, expected: bytes | None, value: bytes) -> bytes | Refusal:
    span: tuple[int, int] | None = None
    try:
        for found, begin, end in _members(body):
            if found == name and (expected is None or body[begin:end] == expected):
                span = begin, end
    except ValueError as error:
        return Refusal("invalid_value", str(error), name)
    if span is None:
        return Refusal("invalid_value", f"the body's {name} cannot be found", name)
    return body[: span[0]] + value + body[span[1] :]


_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]', re.DOTALL)
_BLANK = b" \t\r\n"


def _members(body: bytes) -> Iterator[tuple[str, int, int]]:
    """Yield the name and the span of the value of each member of a valid JSON object.

    Raises:
        ValueError: it holds more strings and brackets than are looked at.
    """
    depth = 0
    name: str | None = None
    begin = 0
    for count, token in enumerate(_TOKEN.finditer(body)):
        if count > SCAN_MOST:
            raise ValueError("the body holds too many values to be edited")
        mark = token[0]
        if mark in {b"{", b"["}:
            depth += 1
        elif depth == 1 and mark == b":":
            begin = token.end()
        elif depth == 1 and mark in {b",", b"}"}:
            if name is not None:
                yield name, *_trim(body, begin, token.start())
            name = None
        elif depth == 1 and mark[:1] == b'"' and name is None:
            name = msgspec.json.decode(mark, type=str)
        if mark in {b"}", b"]"}:
            depth -= 1


def _trim(body: bytes, begin: int, end: int) -> tuple[int, int]:
    while body[begin : begin + 1] in _BLANK and begin < end:
        begin += 1
    while body[end - 1 : end] in _BLANK and begin < end:
        end -= 1
    return begin, end
