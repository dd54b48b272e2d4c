"""Is an engine ready: its own HTTP answer says so, and it is the one that was started."""

import msgspec

from llmgw.base.errors import LlmgwError
from llmgw.base.log import get
from llmgw.base.world import HttpAnswer
from llmgw.model.shard import PORT_TAKEN, Progress
from llmgw_agent.engines.adapter import Adapter
from llmgw_agent.supervise.means import Means, ShardFailed
from llmgw_agent.supervise.shard import Shard

log = get(__name__)

_POLL = 0.25
_ANSWER_LIMIT = 5.0
_ANSWER_MOST = 1 << 20
"""Bytes of an answer: of a metrics page the status is looked at alone."""
_UNKEYED_WAIT = 2.0
"""Seconds in which an engine that found its port taken has surely ended."""
_REFUSALS = frozenset({401, 403})
_WORDS_MOST = 200


async def until_ready(shard: Shard, adapter: Adapter, means: Means) -> None:
    """Return when the engine serves requests; whether it asks for the key is noted.

    Raises:
        ShardFailed: another service answers on its port.
    """
    while True:
        answer = await ask(shard, means, adapter.ready_path, with_key=True)
        if answer is not None and answer.status == 200:
            shard.keyed = await _keyed(shard, adapter, means)
            return
        if answer is not None and (words := _words(answer)):
            shard.note_progress(Progress(words=words))
        await means.clock.sleep(_POLL)


async def _keyed(shard: Shard, adapter: Adapter, means: Means) -> bool:
    """Say whether the engine refuses whoever has no key.

    The health answer needs none, so it may come from any service that took the port; the key is
    what only the replica's own engine knows. Without one there is only time to tell them apart.
    """
    if shard.key is None:
        await means.clock.sleep(_UNKEYED_WAIT)
        return False
    own = await ask(shard, means, adapter.metrics_path, with_key=True)
    if own is not None and own.status in _REFUSALS:
        words = f"port {shard.port}: another service answers there and refuses this replica's key"
        raise ShardFailed(PORT_TAKEN, words)
    without = await ask(shard, means, adapter.metrics_path, with_key=False)
    keyed = without is not None and without.status in _REFUSALS
    if not keyed:
        log.warning("an engine answers without its key", shard=shard.name, port=shard.port)
    return keyed


def headers_of(shard: Shard) -> dict[str, str]:
    """Return what a request to a shard's engine shows: its key, where it has one."""
    return {} if shard.key is None else {"authorization": f"Bearer {shard.key.reveal()}"}


async def ask(shard: Shard, means: Means, path: str, *, with_key: bool) -> HttpAnswer | None:
    """Return what an engine answers at a path; None when it does not."""
    try:
        return await means.http.request(
            "GET",
            f"{base_url(shard)}{path}",
            headers=headers_of(shard) if with_key else {},
            timeout=_ANSWER_LIMIT,
            most=_ANSWER_MOST,
        )
    except LlmgwError:
        return None


def base_url(shard: Shard) -> str:
    """Return where a shard's engine is asked."""
    host = shard.address or ""
    return f"http://[{host}]:{shard.port}" if ":" in host else f"http://{host}:{shard.port}"


def _words(answer: HttpAnswer) -> str | None:
    """Return what an engine says while it loads: `{"error": {"message": "Loading model"}}`."""
    try:
        body = msgspec.json.decode(answer.body)
        words = body["error"]["message"]
    except (msgspec.MsgspecError, KeyError, TypeError, UnicodeDecodeError):
        return None
    return words[:_WORDS_MOST] if isinstance(words, str) and words.isprintable() else None
