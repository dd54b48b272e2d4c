"""An engine's metrics page: what it runs, what waits, and whether tokens move.

llama.cpp, vLLM and SGLang by their own names; the simulated engine uses llama.cpp's.
"""

import math
import re
from collections.abc import Mapping

from llmgw.base.errors import Unreadable
from llmgw.model.record import Record

_SAMPLE = re.compile(
    r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{[^\n]*\})?\s+(?P<value>\S+)(?:\s+-?\d+)?\s*\Z"
)

_RUNNING = ("llamacpp:requests_processing", "vllm:num_requests_running", "sglang:num_running_reqs")
_WAITING = ("llamacpp:requests_deferred", "vllm:num_requests_waiting", "sglang:num_queue_reqs")
_CACHE = (
    "llamacpp:kv_cache_usage_ratio",
    "vllm:kv_cache_usage_perc",
    "vllm:gpu_cache_usage_perc",
    "sglang:token_usage",
)
"""Shares, whatever their names say: 1 means that nothing is free."""
_MOVES = (
    "llamacpp:tokens_predicted_total",
    "llamacpp:prompt_tokens_total",
    "llamacpp:n_decode_total",
    "vllm:generation_tokens_total",
    "vllm:prompt_tokens_total",
    "sglang:generation_tokens_total",
    "sglang:prompt_tokens_total",
)
"""Totals that grow while an engine works, on prompts as on replies."""

_MOST = 1 << 53


class EngineUse(Record, frozen=True, kw_only=True):
    """What an engine has to do, and how far it is; None: it does not say."""

    running: int | None = None
    waiting: int | None = None
    moved: float | None = None
    """The sum of its totals: it stands still while no token moves."""
    cache_used: float | None = None
    """Share of its KV cache that requests hold, between 0 and 1; of several the fullest's."""


def read_engine_metrics(text: str) -> EngineUse:
    """Return what a metrics page says.

    Several samples of one name (a model each, a rank each) are added up.

    Raises:
        Unreadable: it names nothing that is known.
    """
    sums: dict[str, float] = {}
    counted = {*_RUNNING, *_WAITING, *_MOVES}
    caches: list[float] = []
    for line in text.splitlines():
        found = _SAMPLE.match(line)
        value = None if found is None else _number(found["value"])
        if found is None or value is None:
            continue
        if found["name"] in _CACHE:
            caches.append(value)
        elif found["name"] in counted:
            sums[found["name"]] = sums.get(found["name"], 0.0) + value
    if not sums:
        raise Unreadable(f"no metrics of an engine that is known: {text[:60]!r}")
    moves = [sums[name] for name in _MOVES if name in sums]
    return EngineUse(
        running=_count(sums, _RUNNING),
        waiting=_count(sums, _WAITING),
        moved=sum(moves) if moves else None,
        cache_used=max((share for share in caches if share <= 1), default=None),
    )


def _count(sums: Mapping[str, float], names: tuple[str, ...]) -> int | None:
    found = [sums[name] for name in names if name in sums]
    return min(_MOST, int(sum(found))) if found else None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
