"""Does an engine live: a health answer is not life, tokens that move are (ENG-5a)."""

import msgspec

from llmgw.base.errors import LlmgwError, TimedOut
from llmgw.base.log import get
from llmgw.base.units import show_seconds
from llmgw_agent.engines.adapter import Adapter
from llmgw_agent.parse.engine_metrics import EngineUse, read_engine_metrics
from llmgw_agent.supervise.means import Means
from llmgw_agent.supervise.ready import ask, base_url, headers_of
from llmgw_agent.supervise.shard import Shard

log = get(__name__)

PERIOD = 5.0
"""Seconds between two looks at an engine's metrics."""
STILL_FOR = 180.0
"""Seconds for which requests may be there while no token moves. A long prompt moves tokens too."""
CANARY_EVERY = 60.0
"""Seconds between two canaries of an engine whose metrics tell nothing."""
CANARY_LIMIT = 120.0
"""Seconds in which a request for one token has to be answered, whatever the answer."""
CANARIES = 2
"""Canaries in a row that are not answered before an engine counts as stuck."""


class Pulse:
    """Judges an engine by what it said from look to look; pure. Times: monotonic seconds.

    Args:
        still_for: seconds for which requests may be there while no token moves.
    """

    def __init__(self, still_for: float) -> None:
        self._still_for = still_for
        self._moved: float | None = None
        self._still_since: float | None = None

    def look(self, use: EngineUse, now: float) -> str | None:
        """Return why the engine is stuck, in words; None while it is not known to be."""
        there = (use.running or 0) + (use.waiting or 0)
        if not there or use.moved is None or use.moved != self._moved:
            self._moved, self._still_since = use.moved, now
            return None
        if self._still_since is None or now - self._still_since < self._still_for:
            return None
        return (
            f"no token moved for {show_seconds(self._still_for)} "
            f"(requests running: {use.running or 0}, waiting: {use.waiting or 0})"
        )


async def until_stuck(shard: Shard, adapter: Adapter, means: Means) -> str:
    """Watch an engine that is ready; return why it is stuck, once it is.

    What it has to do is noted at the shard from look to look.
    """
    still_for = STILL_FOR if means.stuck_after is None else means.stuck_after
    pulse, clock = Pulse(still_for), means.clock
    unanswered, next_canary = 0, clock.monotonic() + CANARY_EVERY
    while True:
        await clock.sleep(PERIOD)
        use = await _look(shard, adapter, means)
        shard.note_use(use)
        if use is not None:
            unanswered, next_canary = 0, clock.monotonic() + CANARY_EVERY
            words = pulse.look(use, clock.monotonic())
            if words is not None:
                return words
        elif clock.monotonic() >= next_canary:
            unanswered = 0 if await _canary(shard, adapter, means) else unanswered + 1
            next_canary = clock.monotonic() + CANARY_EVERY
            if unanswered >= CANARIES:
                limit = show_seconds(CANARY_LIMIT)
                return f"{CANARIES} requests for one token were not answered within {limit} each"


async def _look(shard: Shard, adapter: Adapter, means: Means) -> EngineUse | None:
    answer = await ask(shard, means, adapter.metrics_path, with_key=True)
    if answer is None or answer.status != 200:
        return None
    try:
        return read_engine_metrics(answer.body.decode(errors="replace"))
    except LlmgwError:
        return None


async def _canary(shard: Shard, adapter: Adapter, means: Means) -> bool:
    """Say whether a request for one token is answered, or fails at once, as of a dead engine."""
    asked = {"model": adapter.served_name(shard.spec), "prompt": "a", "max_tokens": 1}
    try:
        await means.http.request(
            "POST",
            f"{base_url(shard)}/v1/completions",
            headers={**headers_of(shard), "content-type": "application/json"},
            body=msgspec.json.encode(asked),
            timeout=CANARY_LIMIT,
        )
    except TimedOut:
        log.warning("a canary was not answered", shard=shard.name)
        return False
    except LlmgwError:
        return True  # its process is watched; what it answers with is not what this asks
    return True


async def watch(shard: Shard, adapter: Adapter, means: Means) -> None:
    """Have a shard said to be stuck when its engine is; what it said last goes with it."""
    words = await until_stuck(shard, adapter, means)
    shard.log.poll()
    shard.stick(words)
