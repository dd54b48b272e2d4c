"""What a job waits for of a model that a request starts: nothing, while none has come."""

from llmgw.model.catalog import Model
from llmgw.plan.scaling import on_demand
from llmgw.plan.serving.records import Seen


def awaited(model: Model, seen: Seen) -> dict[str, int]:
    """Return how many replicas of each profile are waited for."""
    resting = {one.profile for one in seen.wants if one.model == model.name and not one.replicas}
    return {
        profile.name: 0 if profile.name in resting and on_demand(profile) else profile.replicas
        for profile in model.profiles
    }


def none_awaited(model: Model) -> str:
    """Return why no replica is waited for."""
    if any(map(on_demand, model.profiles)):
        return "no replica until a request comes, which starts it"
    return "no replica is wanted"
