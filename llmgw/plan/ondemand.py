"""What is said of a profile that may be without replicas."""

from llmgw.base.units import show_seconds
from llmgw.model.catalog import Profile
from llmgw.plan.need import rule_of
from llmgw.plan.scaling import at_request, most, rests_after
from llmgw.plan.words import counted


def told(profile: Profile) -> str:
    """Return when its last replica goes and what starts one; empty: it always has one."""
    after = rests_after(profile)
    if after is not None:
        starts = counted(at_request(profile), "replica")
        says = "scaling.down_window; scaling.idle_stop says another time"
        which = f" ({says})" if rule_of(profile).idle_stop is None else ""
        return (
            f"its last replica goes when nothing was asked of it for {show_seconds(after)}{which}, "
            f"and a request starts {starts}"
        )
    if not most(profile):
        return "it has no replica, and no request starts one: max_replicas allows it"
    return ""
