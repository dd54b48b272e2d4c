"""What a model is made of, as the header of its weights says: what an estimate is made from."""

from llmgw.model.record import Record


class AttentionLayers(Record, frozen=True, kw_only=True):
    """Layers that keep the same of each token."""

    layers: int
    heads: int
    """Key-value heads; 0 for layers that keep nothing of a token."""
    key_length: int
    value_length: int
    """Numbers that one head keeps of a token: its key, its value."""
    window: int | None = None
    """Tokens that these layers look back; None: all of them."""


class ModelShape(Record, frozen=True, kw_only=True):
    """A model as its files describe it. None where they do not say.

    `attention` is None for an architecture whose cache is not known; it is empty for one that keeps
    nothing of a token.
    """

    format: str
    """`gguf` or `safetensors`."""
    architecture: str | None = None
    weights_bytes: int | None = None
    """Of all tensors: what is loaded."""
    embedding_bytes: int | None = None
    """Of the table of token embeddings, which llama.cpp leaves in host memory."""
    layers: int | None = None
    embedding: int | None = None
    feed_forward: int | None = None
    vocabulary: int | None = None
    context: int | None = None
    """Tokens that it was trained for."""
    experts: int | None = None
    experts_used: int | None = None
    expert_bytes: int | None = None
    """Of all experts' tensors, of which a token reads `experts_used` of `experts`."""
    attention: tuple[AttentionLayers, ...] | None = None
