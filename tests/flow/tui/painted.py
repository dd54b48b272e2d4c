"""Machines that become busy, and what a screen paints for it, counted."""

import pytest
from textual.geometry import Region

from llmgw.model.node import Heartbeat, Sample
from llmgw_tui.widgets.drawn import Drawn
from tests.fakes.fleet_parts import NOW
from tests.flow.tui.stage import Stage


def busy(stage: Stage, name: str, percent: float) -> Sample:
    """Return a machine's last sample with another load of its processor."""
    sample = stage.feed.fleet.topics["samples"][name]
    assert isinstance(sample, Sample)
    values = {key: getattr(sample.heartbeat, key) for key in Heartbeat.__struct_fields__}
    values["cpu_percent"] = percent
    return Sample(id=name, at=NOW, heartbeat=Heartbeat(**values))


class Painted:
    """Counts the regions that widgets ask to be painted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.regions: list[tuple[str, tuple[Region, ...]]] = []
        original = Drawn.refresh

        def refresh(widget: Drawn, *regions: Region, **options: bool) -> Drawn:
            self.regions.append((type(widget).__name__, regions))
            return original(widget, *regions, **options)

        monkeypatch.setattr(Drawn, "refresh", refresh)

    def take(self) -> list[tuple[str, tuple[Region, ...]]]:
        taken, self.regions = self.regions, []
        return taken
