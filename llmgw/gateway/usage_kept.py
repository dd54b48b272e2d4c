"""Where a gateway's usage is kept: until it is told, or, with nobody to tell it to, for good."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from llmgw.base.clock import Clock
from llmgw.base.world import Files
from llmgw.gateway.alone_usage import DIRECTORY, AloneUsage
from llmgw.gateway.forgetting import Forgetting
from llmgw.gateway.frames import TableFrame
from llmgw.gateway.journal import UsageJournal
from llmgw.gateway.places import Place
from llmgw.model.keys import UsageTotals


class KeptUsage:
    """Totals of all workers: counted, written, and forgotten when their keys are gone.

    Args:
        state: the state directory.
        files: the disk.
        gateway: this gateway's id.
        boot: which start of it this is.
        clock: the time.
        alone: there is no control plane.
    """

    def __init__(
        self, state: Path, files: Files, gateway: str, boot: str, clock: Clock, *, alone: bool
    ) -> None:
        self.journal = UsageJournal(state / "usage", files, gateway, boot)
        self._alone = AloneUsage(state / DIRECTORY, files, clock) if alone else None
        self._forgetting = Forgetting(self._is_kept, self._is_over, clock.monotonic)

    def count(self, worker: int, totals: Iterable[UsageTotals]) -> None:
        """Take a worker's newest totals; those that it does not name stay."""
        (self._alone or self.journal).count(worker, totals)

    def save(self) -> None:
        """Write what changed.

        Raises:
            OSError: the disk takes nothing; the next call tries again.
        """
        (self._alone or self.journal).save()

    def told(self, frame: TableFrame) -> None:
        """Note which keys are gone, and which came back."""
        self._forgetting.told(frame)

    def forget(self, places: Sequence[Place]) -> None:
        """Have totals of keys that are gone forgotten, now and then."""
        self._forgetting.look(places)

    def forgot(self, place: Place, totals: Sequence[UsageTotals]) -> None:
        """Forget what a worker has forgotten."""
        self._forgetting.forgot(place, totals)

    def _is_kept(self, worker: int, total: UsageTotals) -> bool:
        return self._alone is not None or self.journal.is_kept(worker, total)

    def _is_over(self, worker: int, totals: Iterable[UsageTotals]) -> None:
        if self._alone is None:
            self.journal.over(worker, totals)
        else:
            self._alone.forget(worker, totals)
