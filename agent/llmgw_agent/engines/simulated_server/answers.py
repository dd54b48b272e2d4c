"""The simulated engine's answers: llama-server's paths, OpenAI's shapes."""

import hmac
import itertools
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from llmgw_agent.engines.simulated_server.completion import Completion, Wrong, read_completion
from llmgw_agent.engines.simulated_server.engine import CutOff, Engine, pieces, token_id
from llmgw_agent.engines.simulated_server.http import Reply, Request
from llmgw_agent.engines.simulated_server.metrics import metrics_text

FINGERPRINT = "simulated"

_OPEN = frozenset({"/health", "/v1/health", "/v1/models", "/models"})
"""Paths that answer without the key, as llama-server's do."""


class Answers:
    """Answers requests.

    Args:
        engine: what serves them.
        key: what a client must send; None: everybody is served.
    """

    def __init__(self, engine: Engine, key: str | None) -> None:
        self._engine = engine
        self._key = key
        self._ids = itertools.count(1)
        self._started = int(time.time())
        self._told: dict[str, Callable[[Reply], None]] = {
            "/health": self._health,
            "/v1/health": self._health,
            "/v1/models": self._models,
            "/models": self._models,
            "/metrics": self._metrics,
            "/slots": self._slots,
            "/props": self._props,
        }
        self._asked: dict[str, Callable[[Request, Reply], Awaitable[None]]] = {
            "/tokenize": self._tokenize,
            "/v1/completions": self._complete,
            "/v1/chat/completions": self._complete,
        }

    async def answer(self, request: Request, reply: Reply) -> None:
        """Answer one request."""
        if not self._may(request):
            reply.error(401, "Invalid API Key", "authentication_error")
            return
        told, asked = self._told.get(request.path), self._asked.get(request.path)
        if told is None and asked is None:
            reply.error(404, "File Not Found", "not_found_error")
        elif request.method != ("POST" if told is None else "GET"):
            reply.error(405, "Method Not Allowed", "not_found_error")
        elif not self._engine.loaded:
            reply.error(503, "Loading model", "unavailable_error")
        elif told is not None:
            told(reply)
        elif asked is not None:
            await _guarded(asked, request, reply)

    def _may(self, request: Request) -> bool:
        if self._key is None or request.path in _OPEN:
            return True
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        right = hmac.compare_digest(given.strip().encode(), self._key.encode())
        return scheme.lower() == "bearer" and right

    def _health(self, reply: Reply) -> None:
        reply.json(200, {"status": "ok"})

    def _models(self, reply: Reply) -> None:
        model = self._engine.arguments.model
        entry = {
            "id": model,
            "object": "model",
            "created": self._started,
            "owned_by": FINGERPRINT,
            "meta": {"n_ctx": self._engine.arguments.context},
        }
        reply.json(200, {"object": "list", "data": [entry]})

    def _metrics(self, reply: Reply) -> None:
        text = metrics_text(self._engine)
        reply.whole(200, text.encode(), "text/plain; version=0.0.4")

    def _slots(self, reply: Reply) -> None:
        slots = [
            {
                "id": slot.id,
                "n_ctx": self._engine.arguments.context,
                "is_processing": slot.task is not None,
                "id_task": slot.task,
                "n_prompt_tokens": slot.prompt_tokens,
                "n_decoded": slot.decoded,
            }
            for slot in self._engine.slots
        ]
        reply.json(200, slots)

    def _props(self, reply: Reply) -> None:
        arguments = self._engine.arguments
        body = {
            "total_slots": arguments.parallel,
            "model_alias": arguments.model,
            "build_info": FINGERPRINT,
            "default_generation_settings": {"n_ctx": arguments.context},
        }
        reply.json(200, body)

    async def _tokenize(self, request: Request, reply: Reply) -> None:
        body = _object(request.body)
        content = body.get("content", "")
        if not isinstance(content, str):
            raise Wrong(400, "content is not a text")
        found = pieces(content)
        if body.get("with_pieces") is True:
            tokens: list[Any] = [{"id": token_id(piece), "piece": piece} for piece in found]
        else:
            tokens = [token_id(piece) for piece in found]
        reply.json(200, {"tokens": tokens})

    async def _complete(self, request: Request, reply: Reply) -> None:
        engine = self._engine
        if engine.arguments.fault.refuse:
            raise Wrong(503, "the simulated engine refuses, as it was told", "unavailable_error")
        chat = request.path == "/v1/chat/completions"
        asked = read_completion(_object(request.body), engine.arguments, chat=chat)
        name = f"{'chatcmpl' if chat else 'cmpl'}-simulated-{next(self._ids)}"
        completion = Completion(asked, name, int(time.time()), engine.arguments.model)
        async with engine.slot(asked.prompt_tokens) as slot:
            words = engine.tokens(slot, asked.tokens)
            if not asked.stream:
                reply.json(200, completion.whole([word async for word in words]))
                return
            reply.begin_events()
            for opening in completion.opening():
                await reply.event(opening)
            async for word in words:
                await reply.event(completion.token(word))
            for closing in completion.closing():
                await reply.event(closing)
            reply.end_events()


async def _guarded(
    way: Callable[[Request, Reply], Awaitable[None]], request: Request, reply: Reply
) -> None:
    try:
        await way(request, reply)
    except Wrong as error:
        reply.json(error.status, {"error": error.body()})
    except CutOff:
        reply.cut()


def _object(body: bytes) -> dict[str, Any]:
    try:
        read = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise Wrong(400, "the body is no JSON") from error
    if not isinstance(read, dict):
        raise Wrong(400, "the body is no JSON object")
    return read
