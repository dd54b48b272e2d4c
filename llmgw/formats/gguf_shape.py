"""A model's shape from a GGUF header. Keys are those of `docs/gguf.md` and `llama-arch.cpp`."""

from collections import Counter
from collections.abc import Iterable, Mapping

from llmgw.formats.gguf import GgufHead, GgufTensor, Value
from llmgw.model.shape import AttentionLayers, ModelShape

_FULL_EVERY: Mapping[str, int] = {
    "gemma2": 2,
    "gemma3": 6,
    "gemma3n": 5,
    "gpt-oss": 2,
    "cohere2": 4,
    "exaone4": 4,
}
"""Of how many layers one looks back at everything, where llama.cpp knows that by the architecture
alone (`llama-model.cpp`, `set_swa_pattern`)."""

_RECURRENT = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
"""They keep nothing of a token; a state of fixed size is small beside the weights."""

_MOST = 1 << 40
"""More than any number of a model can be: what is larger is none."""
_MOST_LAYERS = 10_000
_MOST_BYTES = 1 << 60

_EMBEDDING = "token_embd.weight"
_OUTPUT = "output.weight"
_EXPERTS = "_exps."


def shape_of(head: GgufHead, tensors: tuple[GgufTensor, ...] | None = None) -> ModelShape:
    """Return the shape that a header describes.

    Args:
        head: of the file, or of the first of several parts: only that one has the metadata.
        tensors: of all parts; None: those of the one file.
    """
    known = _Known(head.values)
    tensors = head.tensors if tensors is None else tensors
    sizes = [(one, one.size_bytes) for one in tensors]
    return ModelShape(
        format="gguf",
        architecture=known.architecture,
        weights_bytes=_sum(size for _, size in sizes),
        embedding_bytes=_embedding_bytes(tensors),
        layers=known.count("block_count"),
        embedding=known.count("embedding_length"),
        feed_forward=known.most("feed_forward_length"),
        vocabulary=known.count("vocab_size") or _vocabulary(tensors),
        context=known.count("context_length"),
        experts=known.count("expert_count") or None,
        experts_used=known.count("expert_used_count") or None,
        expert_bytes=_sum(size for one, size in sizes if _EXPERTS in one.name) or None,
        attention=_attention(known),
    )


class _Known:
    """The metadata below an architecture's own prefix."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        named = values.get("general.architecture")
        self.architecture = named if isinstance(named, str) else None
        self._values = values

    def get(self, key: str) -> Value | None:
        return self._values.get(f"{self.architecture}.{key}")

    def count(self, key: str) -> int | None:
        return _bounded(self.get(key))

    def each(self, key: str, layers: int) -> list[int] | None:
        """Return a count for each layer, said once for all or layer by layer."""
        value = self.get(key)
        if isinstance(value, tuple):
            found = [one for one in map(_bounded, value) if one is not None]
            return found if len(found) == layers else None
        one = self.count(key)
        return None if one is None else [one] * layers

    def most(self, key: str) -> int | None:
        value = self.get(key)
        if isinstance(value, tuple):
            return max((one for one in map(_bounded, value) if one is not None), default=None)
        return self.count(key)


def _bounded(value: Value | None) -> int | None:
    """Return a count; None for what is none, or larger than any of these can be."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= _MOST else None


def _attention(known: _Known) -> tuple[AttentionLayers, ...] | None:
    if known.architecture in _RECURRENT:
        return ()
    layers = known.count("block_count")
    heads = known.count("attention.head_count") or known.most("attention.head_count")
    if not layers or layers > _MOST_LAYERS or not heads:
        return None
    key_value = known.each("attention.head_count_kv", layers) or [heads] * layers
    embedding = known.count("embedding_length")
    each = embedding // heads if embedding else None
    key = known.count("attention.key_length") or each
    value = known.count("attention.value_length") or each
    if not key or not value:
        return None
    kinds = Counter(zip(key_value, _windows(known, layers), strict=True))
    return tuple(
        AttentionLayers(layers=count, heads=some, key_length=key, value_length=value, window=window)
        for (some, window), count in sorted(kinds.items(), key=lambda one: (one[0][1] or 0, one))
    )


def _windows(known: _Known, layers: int) -> list[int | None]:
    """Return for each layer how far it looks back; None, all of it, where one can't tell."""
    window = known.count("attention.sliding_window")
    pattern = known.get("attention.sliding_window_pattern")
    if not window:
        return [None] * layers
    if isinstance(pattern, tuple) and len(pattern) == layers:
        return [window if narrow else None for narrow in pattern]
    every = pattern if isinstance(pattern, int) and pattern > 1 else None
    every = every or _FULL_EVERY.get(known.architecture or "")
    if every is None:
        return [None] * layers
    return [None if number % every == every - 1 else window for number in range(layers)]


def _embedding_bytes(tensors: tuple[GgufTensor, ...]) -> int | None:
    """Return the bytes of the embeddings; 0 where they are the output layer as well."""
    found = {one.name: one.size_bytes for one in tensors}
    if _EMBEDDING not in found:
        return None
    return found[_EMBEDDING] if _OUTPUT in found else 0


def _vocabulary(tensors: tuple[GgufTensor, ...]) -> int | None:
    shapes = {one.name: one.shape for one in tensors}
    shape = shapes.get(_EMBEDDING, ())
    return shape[1] if len(shape) == 2 else None


def _sum(sizes: Iterable[int | None]) -> int | None:
    """Return the sum; None when one of them is not known."""
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total if total <= _MOST_BYTES else None
