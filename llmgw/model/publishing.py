"""Which names users ask for beside the catalog's, and engines that no agent runs, as people write.

Keys are named by files on the gateways' machines: what is secret is in no setting.
"""

import msgspec

from llmgw.model.record import Written


class StaticEndpoint(Written, frozen=True, kw_only=True):
    """An engine that no agent runs; gateways speak to it as to a replica of the model."""

    url: str
    """`http://10.0.0.7:8000`; a path is put in place of `/v1`."""
    model: str = ""
    """The model's name there; empty: as here."""
    key_file: str = ""
    """File on the gateways' machines with its key; empty: it needs none."""
    engine: str = ""
    """`llamacpp`, `vllm`, `sglang`; empty: not known."""
    concurrency: int | None = None
    """Requests of this model that it serves at once; None: not known. Where several models stand at
    one address, what each of them may have there is counted apart."""


class Provider(Written, frozen=True, kw_only=True):
    """A service outside that speaks as OpenAI's does."""

    url: str
    """`https://api.example.com/v1`; its path is put in place of `/v1`."""
    key_file: str = ""
    """File on the gateways' machines, mode 0600, with the key that it is asked with."""


class Fallback(Written, frozen=True, kw_only=True):
    """Where requests go when nothing that serves a name can take them."""

    model: str
    """A model of the catalog; of a provider, the name that it has there."""
    provider: str = ""
    """One of `providers`; empty: this cluster."""


class PublicRoute(Written, frozen=True, kw_only=True):
    """One public name."""

    models: dict[str, int] = msgspec.field(default_factory=dict)
    """Models of the catalog by name, each with its weight; empty: the model of the same name."""
    fallback: Fallback | None = None


class Publishing(Written, frozen=True, kw_only=True):
    """All of it, by name."""

    endpoints: dict[str, tuple[StaticEndpoint, ...]] = msgspec.field(default_factory=dict)
    """Engines that no agent runs, by the model that they serve."""
    routes: dict[str, PublicRoute] = msgspec.field(default_factory=dict)
    """Public names with several models, or with a fall-back."""
    providers: dict[str, Provider] = msgspec.field(default_factory=dict)
    """Services outside."""
