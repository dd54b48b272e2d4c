"""Where a gateway looks for a control plane after a standby named the leader."""

from dataclasses import dataclass
from typing import cast

from llmgw.gateway.journal import UsageJournal
from llmgw.gateway.membership import Membership
from llmgw.gateway.quotas import Quotas
from llmgw.gateway.table import TableBook
from llmgw.gateway.uplink import Uplink
from llmgw.link.dial import GatewaySide
from llmgw.model.gateway import GatewayRegister
from llmgw.model.link import GatewayControl, Goodbye
from tests.fakes.clock import FakeClock


@dataclass
class Kept:
    """What a gateway kept of its cluster."""

    control_planes: tuple[str, ...] = ("a:7442",)


def test_the_named_leader_is_first_however_often_it_is_named(clock: FakeClock) -> None:
    uplink = Uplink(
        cast("Membership", Kept()),
        TableBook(),
        cast("UsageJournal", None),
        cast("Quotas", None),
        lambda: GatewayRegister(gateway="g1"),
        lambda _: None,
        configured=("b:7442",),
        clock=clock,
    )
    for leader in ("c:7442", "b:7442", "c:7442", "c:7442"):
        goodbye = Goodbye(reason="this one does not lead", leader=leader)
        uplink._take(cast("GatewaySide", None), GatewayControl(goodbye=goodbye))
    assert uplink.addresses() == ("c:7442", "b:7442", "a:7442")
    assert len(uplink._learned) == 3
