"""Sources that learn from others which cards there are: not blind for a period at first."""

import asyncio

import msgspec

from llmgw.base.errors import Refused
from llmgw.base.world import HttpAnswer
from llmgw.model.device import Device
from llmgw.model.node import Inventory, ProbeState
from llmgw.model.settings import NodeSettings
from llmgw_agent.probe.dcgm import DcgmProbe
from llmgw_agent.probe.facts import ProbedFacts
from llmgw_agent.probe.kernel_log import KernelLogProbe
from llmgw_agent.probe.source import Source
from tests.fakes.clock import FakeClock, settle
from tests.fakes.machine import FakeHttp, MemoryFiles
from tests.waiting import wait_until

CARD = Device(uuid="GPU-0", number=0, pci_address="00000000:01:00.0")


class Cards(Source):
    """A driver that lists one card once it is let."""

    name = "gpus"
    period = timeout = 60.0
    age = 0.0

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.devices: tuple[Device, ...] | None = None

    async def read(self) -> str:
        await self.answers.wait()
        self.devices = (CARD,)
        return "1 NVIDIA card"

    def onto_inventory(self, inventory: Inventory) -> Inventory:
        return msgspec.structs.replace(inventory, devices=self.devices)


class Refusing:
    """A log that nobody may read."""

    name = "log"
    period = period_without_cards = 60.0
    position = None

    def __init__(self) -> None:
        self.asked = 0

    async def news(self) -> tuple[str, ...]:
        self.asked += 1
        raise Refused("log: this user may not read it")

    def resume(self, position: str) -> None:
        pass

    def close(self) -> None:
        pass


class Node:
    """A node with a card, a log that is refused and an exporter."""

    def __init__(self, clock: FakeClock) -> None:
        self.cards, self.log, self.http = Cards(), Refusing(), FakeHttp()
        self.http.answering = lambda url, headers: HttpAnswer(
            status=200, body=b'DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-0"} 0.5\n'
        )
        settings = NodeSettings(version=1, dcgm_exporter="http://127.0.0.1:9400/metrics")
        self.facts = ProbedFacts(
            (
                self.cards,
                DcgmProbe(self.http, lambda: settings, clock),
                KernelLogProbe((self.log,), MemoryFiles(), clock),
            ),
            clock,
        )

    def state(self, name: str) -> ProbeState:
        probes = self.facts.heartbeat(1, 0.0).probes or ()
        return next(state for state in probes if state.name == name)


async def test_the_first_look_says_that_errors_of_a_card_are_not_known(clock: FakeClock):
    node = Node(clock)
    node.cards.answers.set()
    await node.facts.first_look()
    assert "driver errors are not known" in (node.state("kernel-log").error or "")
    assert node.facts.sentences()["dcgm"] == "profiling counters of 1 device"
    assert (node.log.asked, len(node.http.asked)) == (2, 1)


async def test_a_driver_that_answers_late_has_those_asked_at_once_who_need_to_know(
    clock: FakeClock,
):
    node = Node(clock)
    running = asyncio.ensure_future(node.facts.run())
    await wait_until(lambda: node.facts.unanswered() == {"gpus"})
    node.facts.inventory()
    assert node.facts.sentences()["kernel-log"].endswith("there are no NVIDIA cards")
    node.cards.answers.set()
    await wait_until(lambda: not node.facts.unanswered())
    node.facts.inventory()
    await wait_until(lambda: node.state("kernel-log").error is not None)
    await wait_until(lambda: node.facts.sentences().get("dcgm", "").startswith("profiling"))
    await settle()
    asked = node.log.asked
    for _ in range(3):
        node.facts.inventory()
        await settle()
    assert node.log.asked == asked
    running.cancel()
    await asyncio.wait({running})
