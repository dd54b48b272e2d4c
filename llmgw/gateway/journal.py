"""Usage on disk until the store has it: what a killed gateway counted is told by the next one."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from llmgw.base.errors import NotFound
from llmgw.base.log import get
from llmgw.base.world import Files
from llmgw.model.keys import UsageOver, UsageReport, UsageTotals
from llmgw.model.link import UsageTaken

log = get(__name__)

_SUFFIX = ".usage"
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(UsageReport).decode

Row = tuple[str, str]


class _Worker:
    """One worker place of this boot: all its totals, and since which report each row is untold."""

    def __init__(self) -> None:
        self.totals: dict[Row, UsageTotals] = {}
        self.untold: dict[Row, int] = {}
        self.over: dict[Row, int] = {}
        """Rows that are forgotten, and since which report that is said."""
        self.sequence = 0
        self.changed = False


class UsageJournal:
    """Cumulative usage of this boot's workers, and what earlier boots left behind.

    A report carries every row that changed since the last one that was acknowledged, so that a
    report that is lost costs nothing. The file of a worker holds exactly the report that would be
    sent now; it goes when everything in it is acknowledged.

    Memory, file and message grow with the pairs of a key and a model that were used, but for keys
    that are gone and were told of (`over`): a message holds about 60,000 of them.
    """

    def __init__(self, directory: Path, files: Files, gateway: str, boot: str) -> None:
        self._directory = directory
        self._files = files
        self._gateway = gateway
        self._boot = boot
        self._workers: dict[int, _Worker] = {}
        self._earlier: dict[tuple[str, int], UsageReport] = {}
        self._unsent: set[tuple[str, int]] = set()
        self._load()

    def count(self, worker: int, rows: Iterable[UsageTotals]) -> None:
        """Take a worker's newest totals; rows that it does not name stay."""
        place = self._workers.setdefault(worker, _Worker())
        for row in rows:
            which = (row.key, row.model)
            if place.totals.get(which) != row:
                place.totals[which] = row
                place.untold[which] = place.sequence + 1
                place.changed = True

    def is_kept(self, worker: int, total: UsageTotals) -> bool:
        """Say whether the store has a worker's totals of a key and model, and none are newer."""
        place, which = self._workers.get(worker), (total.key, total.model)
        if place is None or which in place.untold:
            return False
        return place.totals.get(which) == total

    def over(self, worker: int, totals: Iterable[UsageTotals]) -> None:
        """Forget totals that are kept and to which nothing is added; the store may do so too."""
        place = self._workers[worker]
        for total in totals:
            which = (total.key, total.model)
            if place.totals.pop(which, None) is not None:
                place.over[which] = place.sequence + 1
                place.changed = True

    def save(self) -> int:
        """Write what changed; return how many workers' files were written.

        Raises:
            OSError: one could not be written, the others were; it is kept, and written later.
        """
        written = 0
        failed: OSError | None = None
        for worker, place in self._workers.items():
            if place.changed:
                place.sequence += 1
                self._unsent.add((self._boot, worker))
                try:
                    self._files.write(self._path(self._boot, worker), _encode(self._report(worker)))
                except OSError as error:
                    failed = error
                    continue
                place.changed = False
                written += 1
        if failed is not None:
            raise failed
        return written

    def due(self) -> list[UsageReport]:
        """Return the reports that were not sent on this stream yet."""
        unsent, self._unsent = sorted(self._unsent), set()
        return [
            self._report(worker) if boot == self._boot else self._earlier[boot, worker]
            for boot, worker in unsent
        ]

    def stream_began(self) -> None:
        """Send everything again that nobody has acknowledged: the stream is a new one."""
        self._unsent = set(self._earlier)
        for worker, place in self._workers.items():
            if place.untold or place.over:
                self._unsent.add((self._boot, worker))

    def taken(self, taken: UsageTaken) -> None:
        """Forget what the store has by now."""
        which = (taken.boot, taken.worker)
        report = self._earlier.get(which)
        if report is not None and taken.sequence >= report.sequence:
            del self._earlier[which]
            self._unsent.discard(which)
            self._files.remove(self._path(*which))
            return
        place = self._workers.get(taken.worker) if taken.boot == self._boot else None
        if place is None:
            return
        for rows in (place.untold, place.over):
            for row in [row for row, since in rows.items() if since <= taken.sequence]:
                del rows[row]
        if not place.untold and not place.over:
            self._files.remove(self._path(*which))

    @property
    def waiting(self) -> int:
        """Return how many reports nobody has acknowledged yet."""
        return len(self._earlier) + sum(1 for place in self._workers.values() if place.untold)

    def _report(self, worker: int) -> UsageReport:
        place = self._workers[worker]
        return UsageReport(
            gateway=self._gateway,
            boot=self._boot,
            worker=worker,
            sequence=place.sequence,
            totals=tuple(place.totals[row] for row in sorted(place.untold)),
            over=tuple(
                UsageOver(key=key, model=model, sequence=place.over[key, model])
                for key, model in sorted(place.over)
            ),
        )

    def _path(self, boot: str, worker: int) -> Path:
        return self._directory / f"{boot}-{worker}{_SUFFIX}"

    def _load(self) -> None:
        """Read what earlier boots left; a file that can't be read stays where it is."""
        for name in self._files.names(self._directory):
            if not name.endswith(_SUFFIX) or name.startswith("."):
                continue
            try:
                report = _decode(self._files.read(self._directory / name))
            except (msgspec.DecodeError, NotFound, OSError) as error:
                log.warning("usage of an earlier start can't be read", file=name, why=str(error))
                continue
            if self._path(report.boot, report.worker).name == name:
                self._earlier[report.boot, report.worker] = report
