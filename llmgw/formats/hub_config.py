"""A model's shape from the `config.json` beside its safetensors, as transformers writes it."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from llmgw.base.errors import Unreadable
from llmgw.formats.safetensors import SafetensorsHead
from llmgw.model.shape import AttentionLayers, ModelShape

_SLIDING = "sliding_attention"
_LINEAR = "linear_attention"
_EXPERTS = ".experts."
_MOST_LAYERS = 10_000
_MOST_BYTES = 1 << 60
_MOST = 1 << 40
"""More than any of these numbers can be: what is larger is none."""


def shape_of(config: bytes, heads: Sequence[SafetensorsHead]) -> ModelShape:
    """Return the shape of a model of one or more files.

    Args:
        config: the text of `config.json`.
        heads: of every file; none when only the configuration is known.

    Raises:
        Unreadable: the configuration is not a JSON object.
    """
    try:
        whole = json.loads(config)
    except (ValueError, RecursionError) as error:
        raise Unreadable("config.json: not JSON") from error
    if not isinstance(whole, dict):
        raise Unreadable("config.json: not a JSON object")
    inner = whole.get("text_config")
    known = _Known(inner if isinstance(inner, dict) else whole)
    tensors = [(name, size) for head in heads for name, size in head.tensors.items()]
    weights = sum(size for _, size in tensors)
    experts = known.count("num_local_experts", "num_experts", "n_routed_experts")
    return ModelShape(
        format="safetensors",
        architecture=_architecture(whole),
        weights_bytes=weights if heads and weights <= _MOST_BYTES else None,
        layers=known.count("num_hidden_layers"),
        embedding=known.count("hidden_size"),
        feed_forward=known.count("intermediate_size"),
        vocabulary=known.count("vocab_size"),
        context=known.count("max_position_embeddings"),
        experts=experts,
        experts_used=known.count("num_experts_per_tok", "experts_per_token") if experts else None,
        expert_bytes=min(_MOST_BYTES, sum(s for name, s in tensors if _EXPERTS in name)) or None,
        attention=_attention(known),
    )


class _Known:
    """The numbers of a configuration; what is no count is not known."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self.values = values

    def count(self, *names: str) -> int | None:
        for name in names:
            value = self.values.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST:
                return value
        return None


def _architecture(whole: Mapping[str, object]) -> str | None:
    named = whole.get("model_type")
    return named if isinstance(named, str) else None


def _attention(known: _Known) -> tuple[AttentionLayers, ...] | None:
    layers = known.count("num_hidden_layers")
    if layers is None or layers > _MOST_LAYERS:
        return None
    latent = known.count("kv_lora_rank")
    if latent is not None:  # Multi-head latent attention: one compressed vector a token and layer.
        key = latent + (known.count("qk_rope_head_dim") or 0)
        return (AttentionLayers(layers=layers, heads=1, key_length=key, value_length=0),)
    heads = known.count("num_attention_heads")
    embedding = known.count("hidden_size")
    each = known.count("head_dim") or (embedding // heads if embedding and heads else None)
    shared = known.count("num_key_value_heads") or heads
    if each is None or shared is None:
        return None
    kinds = Counter(_kinds(known, layers))
    return tuple(
        AttentionLayers(
            layers=count,
            heads=0 if kind == _LINEAR else shared,
            key_length=each,
            value_length=each,
            window=known.count("sliding_window") if kind == _SLIDING else None,
        )
        for kind, count in sorted(kinds.items())
    )


def _kinds(known: _Known, layers: int) -> list[str]:
    """Return what kind each layer is; all of them full where the configuration does not say."""
    said = known.values.get("layer_types")
    if isinstance(said, list) and len(said) == layers:
        return [str(kind) for kind in said]
    return ["full_attention"] * layers
