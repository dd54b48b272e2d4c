"""Which models a key may use, and how they are shown to its clients."""

from collections.abc import Mapping

from llmgw.gateway.auth import Holder
from llmgw.gateway.proxy.endpoints import Way
from llmgw.gateway.refusals import Refusal, quoted

Shown = dict[str, object]


def find(ways: Mapping[str, Way], model: str, holder: Holder) -> Way | Refusal:
    """Return the way to a model, or why the holder of a key has none."""
    refusal = refused(model, holder)
    if refusal is not None:
        return refusal
    way = ways.get(model)
    if way is None:
        return Refusal("model_not_found", f"the model {quoted(model)} does not exist", "model")
    return way


def refused(model: str, holder: Holder | Refusal) -> Refusal | None:
    """Return why whoever asks may not use a model: the key is none, or not for that model."""
    if isinstance(holder, Refusal):
        return holder
    if holder.may_use(model):
        return None
    words = f"the API key may not use the model {quoted(model)}"
    return Refusal("model_not_allowed", words, "model")


def shown(model: str, created: int) -> Shown:
    """Return one model in OpenAI's shape, in which `created` has to be a number."""
    return {"id": model, "object": "model", "created": created, "owned_by": "llmgw"}


def listed(ways: Mapping[str, Way], holder: Holder, created: int) -> Shown:
    """Return the models that the holder of a key may use, in OpenAI's shape."""
    data = [shown(model, created) for model in sorted(ways) if holder.may_use(model)]
    return {"object": "list", "data": data}
