"""The console on a recorded fleet, as a process of its own: for a pty, and for people to look at.

`python -m tests.fakes.console_main mixed --churn 4` changes four nodes four times a second.
`--still` stops the clock at the moment of the recording.
`SIGUSR1` loses the control plane and brings it back; `SIGUSR2` makes the console crash.
"""

import argparse
import asyncio
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping, MutableMapping, Sequence

from llmgw.client.interface import WatchBatch
from llmgw.model.node import Heartbeat, Sample
from llmgw_tui import launch
from llmgw_tui.draw import status
from llmgw_tui.draw.text import Pieces
from tests.fakes import fleet_parts, fleets
from tests.fakes.clock import FakeClock
from tests.fakes.feed import FakeFeed
from tests.fakes.fleet_parts import NOW, RecordedFleet
from tests.fakes.fleets import FLEETS, many

SECRET = "secret-in-a-local-variable"


class LiveFeed(FakeFeed):
    """A recorded fleet whose times are moved to now, with readings that go on changing."""

    def __init__(self, fleet: RecordedFleet, churn: int, every: float) -> None:
        super().__init__(fleet)
        self._churn = churn
        self._every = every
        self._lost = False
        self._rng = random.Random(7)

    async def watch(self, topics: Sequence[str]) -> AsyncIterator[WatchBatch]:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, self._toggle)
        loop.add_signal_handler(signal.SIGUSR2, _crash)
        task = loop.create_task(self._change()) if self._churn else None
        try:
            async for batch in super().watch(topics):
                yield batch
        finally:
            if task is not None:
                task.cancel()

    def _toggle(self) -> None:
        self._lost = not self._lost
        if self._lost:
            self.lose()
        else:
            self.come_back()

    async def _change(self) -> None:
        names = sorted(self.fleet.topics.get("samples", {}))
        number = 0
        while names:
            await asyncio.sleep(self._every)
            number += 1
            records: dict[tuple[str, str], object | None] = {}
            for name in self._rng.sample(names, min(self._churn, len(names))):
                records["samples", name] = self._moved(name)
            self.changes(records)
            self.log(names[0], None, f"heartbeat {number} sent")

    def _moved(self, name: str) -> Sample:
        sample = self.fleet.topics["samples"][name]
        assert isinstance(sample, Sample)
        beat = sample.heartbeat
        values = {key: getattr(beat, key) for key in beat.__struct_fields__}
        values["cpu_percent"] = self._rng.uniform(0, 100)
        return Sample(id=name, at=max(sample.at, time.time()), heartbeat=Heartbeat(**values))


def _crash() -> None:
    """Let the next painting fail, with a secret among its variables."""

    def fail(state: str, heard: float | None, now: float) -> Pieces:
        password = SECRET
        raise RuntimeError(f"asked to crash while {state} with {len(password)} characters")

    status.link = fail


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("fleet", help=f"{', '.join(FLEETS)}, or a number of nodes")
    parser.add_argument("--churn", type=int, default=0)
    parser.add_argument("--every", type=float, default=0.25)
    for flag in ("--ascii", "--slow", "--readonly", "--no-mouse", "--still"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--theme")
    said = parser.parse_args(argv)
    clock = FakeClock(NOW) if said.still else None
    if clock is None:
        for made_of in (fleet_parts, fleets):
            vars(made_of).update(NOW=time.time())
    options = launch.Options(
        ascii=said.ascii,
        slow=said.slow,
        readonly=said.readonly,
        mouse=not said.no_mouse,
        theme=said.theme,
    )

    def connect(
        options: launch.Options, environ: MutableMapping[str, str] | Mapping[str, str]
    ) -> launch.Connected:
        del options, environ
        fleet = many(int(said.fleet)) if said.fleet.isdigit() else FLEETS[said.fleet]()
        client = LiveFeed(fleet, said.churn, said.every)
        return launch.Connected(client, "lab", clock)

    return launch.run(options, connect=connect)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
