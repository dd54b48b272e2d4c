"""The gateways of a `FakePlane`, and the requests that they have now."""

from types import SimpleNamespace

from llmgw.control.key_use import KeyUses
from llmgw.control.live import Answers
from llmgw.control.quotas import Quotas
from llmgw.model.gateway import RESTARTS, Gateway, ModelTraffic, TrafficReport, WorkerStart
from llmgw.model.link import GatewayControl
from llmgw.model.live import AskRequests, RequestsEnded, RequestsSeen, Silent
from tests.fakes import flows
from tests.fakes.clock import FakeClock
from tests.fakes.fleet_parts import NOW


class FakeGateways:
    """Two gateways, one of them gone."""

    def __init__(self) -> None:
        self.known: tuple[Gateway, ...] = (
            Gateway(
                id="gw-1",
                connected=True,
                version="0.1.0",
                url="http://10.0.0.5:7440",
                workers=2,
                peer="10.0.0.5:51002",
                since=NOW - 3600,
                started=(
                    WorkerStart(worker=0, began=NOW - 3600),
                    WorkerStart(worker=1, began=NOW - 120),
                ),
            ),
            Gateway(id="gw-2", connected=False, since=NOW - 60),
        )
        self.sent: list[GatewayControl] = []
        self.traffic: dict[str, ModelTraffic] = {}
        self.quotas = Quotas(FakeClock())
        self.key_uses = KeyUses(FakeClock(NOW))
        self.live = FakeLive()

    def all(self) -> tuple[Gateway, ...]:
        return self.known

    def session(self, gateway: str) -> SimpleNamespace | None:
        """Return as much of a stream as whoever tells a gateway something needs."""
        if gateway != "gw-1":
            return None
        return SimpleNamespace(
            register=SimpleNamespace(features=(RESTARTS,)),
            stream=SimpleNamespace(send=self.sent.append),
        )

    def traffic_by_model(self) -> dict[str, ModelTraffic]:
        return self.traffic

    def live_traffic(self) -> tuple[TrafficReport, ...]:
        return (TrafficReport(gateway="gw-1", boot="b", worker=0, models=flows.MODELS),)

    def queues(self) -> dict[str, dict[str, int]]:
        return {"gw-1": {"gemma3-270m": 2}}

    async def caught_up(self) -> bool:
        return True


class FakeLive:
    """What gateways answer of their requests in flight."""

    def __init__(self) -> None:
        self.requests = list(flows.REQUESTS)
        self.silent: tuple[Silent, ...] = (Silent(gateway="gw-2", words="it is not connected"),)

    async def seen(self, ask: AskRequests, gateway: str | None = None) -> Answers:
        found = tuple(
            one
            for one in self.requests
            if (not ask.ids or one.id in ask.ids) and ask.state in {None, one.state}
        )
        seen = RequestsSeen(
            gateway="gw-1", ask="q", total=5, matching=len(found), requests=found[: ask.limit]
        )
        return Answers({"gw-1": seen}, self.silent)

    async def end(self, ids: tuple[str, ...], words: str) -> Answers:
        self.requests = [one for one in self.requests if one.id not in ids]
        return Answers({"gw-1": RequestsEnded(gateway="gw-1", ask="q", ids=ids)}, ())
