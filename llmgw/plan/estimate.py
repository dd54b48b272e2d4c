"""How much memory a replica needs, and how fast it is on a CPU, before anything is started.

Of llama.cpp each part is checked against what llama-server says it allocated. What vLLM and SGLang
need beyond weights and cache was not measured: it is a margin, and named so.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

from llmgw.model.catalog import LLAMACPP, Profile
from llmgw.model.record import Record
from llmgw.model.shape import AttentionLayers, ModelShape

CONCURRENCY = 4
"""Requests at once where a profile does not say: llama-server's own default."""

BATCH = 512
"""Tokens that llama.cpp computes at once (`n_ubatch`) where a profile's arguments do not say."""
_CELLS_OF = 256
"""llama.cpp rounds the cells of a window up to these."""
_CELL_BYTES = {
    "f32": 4.0,
    "f16": 2.0,
    "bf16": 2.0,
    "q8_0": 34 / 32,
    "q5_1": 24 / 32,
    "q5_0": 22 / 32,
    "q4_1": 20 / 32,
    "q4_0": 18 / 32,
    "iq4_nl": 18 / 32,
    "fp8": 1.0,
    "fp8_e4m3": 1.0,
    "fp8_e5m2": 1.0,
}
"""Bytes of one cached number, by the name that engines give its type."""

RUNTIME_BYTES = 512 << 20
"""Margin a device: the driver's context and the engine's kernels."""
BATCH_BYTES = 2 << 30
"""Margin a device of vLLM and SGLang: activations of a full batch, captured graphs, NCCL."""

SHARE_OF_BANDWIDTH = 0.68
"""Of the measured memory bandwidth that a token's reading of the weights gets."""
PER_TOKEN = 0.005
"""Seconds of a token that are not reading."""
SLOW = 5.0
"""Tokens per second below which a person waits."""
REPLY_TOKENS = 500
REPLY_MOST = 120.0
"""Seconds of a reply of that many tokens, above which the CPU is asked for on purpose."""


class MemoryNeed(Record, frozen=True, kw_only=True):
    """What one replica needs, in bytes. None where it is not known, and `unknown` says why.

    On the CPU all of it is host memory; else it is spread over `devices` devices, `per_device`
    on each at most.
    """

    weights_bytes: int | None = None
    cache_bytes: int | None = None
    """Keys and values of `context` tokens for `concurrency` requests."""
    compute_bytes: int | None = None
    """What the engine allocates to compute with, and its margin."""
    total_bytes: int | None = None
    per_device_bytes: int | None = None
    """None on the CPU."""
    devices: int = 0
    context: int | None = None
    concurrency: int | None = None
    unknown: tuple[str, ...] = ()


def memory_need(
    shape: ModelShape | None, profile: Profile, weights_bytes: int | None
) -> MemoryNeed:
    """Return what one replica of a model needs under a profile.

    Args:
        shape: from the header of the weights; None when nobody has read it.
        profile: the catalog's.
        weights_bytes: of the files, for where the header does not say.
    """
    devices = profile.gpus * profile.nodes
    weights = (shape.weights_bytes if shape else None) or weights_bytes
    context = profile.context or (shape.context if shape else None)
    concurrency = profile.concurrency or CONCURRENCY
    cache = None
    if shape is not None and shape.attention is not None and context is not None:
        cache = cache_bytes(shape.attention, profile, context, concurrency)
    compute = _compute(shape, profile, concurrency)
    unknown = _unknown(shape, weights, context)
    total = None
    if weights is not None and cache is not None and compute is not None:
        total = weights + cache + compute * max(devices, 1)
    return MemoryNeed(
        weights_bytes=weights,
        cache_bytes=cache,
        compute_bytes=None if compute is None else compute * max(devices, 1),
        total_bytes=total,
        per_device_bytes=_per_device(weights, cache, compute, devices),
        devices=devices,
        context=context,
        concurrency=concurrency,
        unknown=unknown,
    )


def least_on_device(
    shape: ModelShape | None, profile: Profile, weights_bytes: int | None
) -> int | None:
    """Return the bytes of a device without which an engine can't start; None: not known, or no GPU.

    No margin is in it: with so little it may still fail, with less it surely does. llama.cpp
    allocates all that it is told to keep, and makes its context smaller where it is not told; vLLM
    and SGLang want room for one request of the whole context.
    """
    devices = profile.gpus * profile.nodes
    weights = (shape.weights_bytes if shape else None) or weights_bytes
    if not devices or weights is None:
        return None
    kept = 0
    if shape is not None and shape.attention is not None and profile.context is not None:
        requests = (profile.concurrency or CONCURRENCY) if profile.engine == LLAMACPP else 1
        kept = cache_bytes(shape.attention, profile, profile.context, requests)
    held = weights - ((shape.embedding_bytes or 0) if shape and profile.engine == LLAMACPP else 0)
    return math.ceil((held + kept) / devices)


def cache_bytes(
    attention: Sequence[AttentionLayers], profile: Profile, context: int, concurrency: int
) -> int:
    """Return the bytes of keys and values of `concurrency` requests of `context` tokens each.

    llama.cpp keeps, of layers that look back a window, the window and a batch, rounded up
    (`llama-kv-cache-iswa.cpp`); vLLM and SGLang are taken to keep the window.
    """
    key, value = _cell_bytes(profile.arguments)
    total = 0.0
    for group in attention:
        cells = context
        if group.window is not None:
            kept = group.window
            if profile.engine == LLAMACPP:
                batch = _batch(profile.arguments)
                kept = math.ceil((group.window + batch) / _CELLS_OF) * _CELLS_OF
            cells = min(context, kept)
        of_token = group.key_length * key + group.value_length * value
        total += cells * concurrency * group.layers * group.heads * of_token
    return math.ceil(total)


def tokens_per_second(
    shape: ModelShape | None,
    weights_bytes: int | None,
    bandwidth: float | None,
    of_core: float | None = None,
    cores: int | None = None,
) -> float | None:
    """Return how many tokens a second one request gets on a CPU (WGT-10); None when not known.

    Args:
        shape: tells how much of a mixture of experts a token reads.
        weights_bytes: of the files.
        bandwidth: of the machine's memory as measured, bytes per second.
        of_core: of one core as measured.
        cores: that the engine may use; None: all.
    """
    read = read_per_token(shape, weights_bytes)
    if not read or not bandwidth:
        return None
    rate = bandwidth
    if of_core is not None and cores is not None:
        rate = min(bandwidth, of_core * cores)
    return 1.0 / (read / (SHARE_OF_BANDWIDTH * rate) + PER_TOKEN)


def read_per_token(shape: ModelShape | None, weights_bytes: int | None) -> int | None:
    """Return the bytes of weights that one token reads: of experts only those that it uses."""
    whole = (shape.weights_bytes if shape else None) or weights_bytes
    if whole is None or shape is None:
        return whole
    read = whole - (shape.embedding_bytes or 0)
    if shape.expert_bytes and shape.experts and shape.experts_used:
        unused = shape.expert_bytes * (1 - shape.experts_used / shape.experts)
        read -= math.floor(unused)
    return read


def is_slow(rate: float) -> bool:
    """Say whether a reply on the CPU would take so long that it has to be asked for."""
    return REPLY_TOKENS / rate > REPLY_MOST


def _compute(shape: ModelShape | None, profile: Profile, concurrency: int) -> int | None:
    """Return what the engine computes with, a device: buffers and margin."""
    margin = RUNTIME_BYTES if profile.gpus else 0
    if profile.engine != LLAMACPP:
        return margin + (BATCH_BYTES if profile.gpus else 0)
    if shape is None or shape.embedding is None or shape.feed_forward is None:
        return None
    # Of a batch four arrays as wide as the feed-forward layer and two as wide as the model live at
    # once; of each request the logits twice: the output and what it is computed in.
    wide = 4 * shape.feed_forward + 2 * shape.embedding
    batch = 4 * _batch(profile.arguments) * wide
    return margin + batch + 2 * 4 * concurrency * (shape.vocabulary or 0)


def _per_device(
    weights: int | None, cache: int | None, compute: int | None, devices: int
) -> int | None:
    if not devices or weights is None or cache is None or compute is None:
        return None
    return math.ceil((weights + cache) / devices) + compute


def _cell_bytes(arguments: Sequence[str]) -> tuple[float, float]:
    """Return the bytes of one cached number of a key and of a value, by the profile's arguments."""
    key = value = _CELL_BYTES["f16"]
    said = dict(_options(arguments))
    both = said.get("--kv-cache-dtype")
    key = _CELL_BYTES.get(said.get("--cache-type-k") or said.get("-ctk") or both or "", key)
    value = _CELL_BYTES.get(said.get("--cache-type-v") or said.get("-ctv") or both or "", value)
    return key, value


def _batch(arguments: Sequence[str]) -> int:
    said = dict(_options(arguments))
    text = said.get("--ubatch-size") or said.get("-ub") or ""
    return min(int(text), BATCH * 64) if text.isdecimal() and len(text) < 10 else BATCH


def _options(arguments: Sequence[str]) -> Sequence[tuple[str, str]]:
    found = [tuple(one.split("=", 1)) for one in arguments if "=" in one]
    apart = [
        (name, value)
        for name, value in pairwise(arguments)
        if name.startswith("-") and "=" not in name
    ]
    return [*apart, *((name, value) for name, value in found)]


def _unknown(shape: ModelShape | None, weights: int | None, context: int | None) -> tuple[str, ...]:
    found = []
    if weights is None:
        found.append("the size of its weights is not known before they are fetched")
    if shape is None:
        found.append("nobody has read the header of its weights: its cache is not known")
    elif shape.attention is None:
        what = shape.architecture or "its architecture"
        found.append(f"what {what} keeps of a token is not known")
    if shape is not None and context is None:
        found.append("neither the profile nor the weights say a context")
    return tuple(found)
