"""A node that an operator takes out is not lost for ever: who waits for it may wait."""

import pytest

from llmgw.plan.records import NOT_NOW
from llmgw.plan.serving.refused import ENOUGH, Never, follow, for_good
from tests.unit.plan.fleet import Fleet, model, node


@pytest.mark.parametrize("wish", ["cordoned", "draining"])
def test_a_job_waits_for_a_node_that_is_taken_out(wish: str):
    fleet = Fleet()
    fleet.join(node("n1", devices=1, wish=wish), node("n2"))
    fleet.serve(model("chat", gpus=1))
    never: Never = {}
    plan = fleet.turn()
    for _ in range(ENOUGH + 1):
        never = follow(never, plan, fleet.desired())
        plan = fleet.turn()
    (refusal,) = plan.refusals
    assert [one.verdict.kind for one in refusal.candidates if one.node == "n1"] == [NOT_NOW]
    assert "`llmgw ctl node uncordon n1` takes it back" in refusal.words
    (entry,) = fleet.desired().models
    assert for_good(plan.refusals, never, entry) == ()
    fleet.change("n1", wish=None)
    assert [one.replica for one in fleet.turn().steps] == ["chat-000001"]
