"""What was used at a gateway without a control plane: by hour, key and model, in files of its own.

A file holds one hour and is written anew while that lasts; so a kill costs what the last second
brought. `llmgw ctl usage --alone DIRECTORY` reads them.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, NotFound, Unreadable
from llmgw.base.log import get
from llmgw.base.world import Files
from llmgw.model.keys import UsageRow, UsageTotals

log = get(__name__)

DIRECTORY = "usage-hours"
"""In the state directory."""
HOUR = 3600
KEPT = 400 * 24
"""Hours that are kept; older ones are removed."""
_SUFFIX = ".hour"
_COUNTS = ("requests", "prompt_tokens", "completion_tokens", "cancelled", "estimated", "failed")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[UsageRow, ...]).decode

Row = tuple[str, str]
"""Key and model."""


class AloneUsage:
    """Adds up what workers counted.

    Args:
        directory: of the files.
        files: the disk.
        clock: says which hour it is.
    """

    def __init__(self, directory: Path, files: Files, clock: Clock) -> None:
        self._directory = directory
        self._files = files
        self._clock = clock
        self._told: dict[tuple[int, Row], UsageTotals] = {}
        """What each worker said last."""
        self._hours: dict[int, dict[Row, UsageRow]] = {}
        """Of this hour, and of those before that could not be written yet."""
        self._changed: set[int] = set()
        self._tidied = 0
        """The hour in which old files were removed last."""

    def count(self, worker: int, totals: Iterable[UsageTotals]) -> None:
        """Add what a worker counted since it spoke last."""
        hour = self._now()
        rows = self._hours.get(hour)
        if rows is None:
            rows = self._hours[hour] = self._read(hour)
        for total in totals:
            which = (total.key, total.model)
            before = self._told.get((worker, which))
            self._told[worker, which] = total
            known = rows.get(which)
            more = {
                name: getattr(total, name)
                - (getattr(before, name) if before is not None else 0)
                + (getattr(known, name) if known is not None else 0)
                for name in _COUNTS
            }
            rows[which] = UsageRow(hour=hour, key=total.key, model=total.model, **more)
            self._changed.add(hour)

    def forget(self, worker: int, totals: Iterable[UsageTotals]) -> None:
        """Forget what a worker said of rows that it has forgotten itself."""
        for total in totals:
            self._told.pop((worker, (total.key, total.model)), None)

    def save(self) -> None:
        """Write what changed.

        Raises:
            OSError: the disk takes nothing; the next call tries again.
        """
        for hour in sorted(self._changed):
            rows = self._hours[hour]
            self._files.write(
                _file(self._directory, hour), _encode(tuple(rows[one] for one in sorted(rows)))
            )
            self._changed.discard(hour)
        now = self._now()
        self._hours = {hour: rows for hour, rows in self._hours.items() if hour == now}
        if now != self._tidied:
            self._tidied = now
            self._remove_before(now - KEPT * HOUR)

    def _remove_before(self, oldest: int) -> None:
        for name in self._files.names(self._directory):
            hour = _hour_of(name)
            if hour is not None and hour < oldest:
                self._files.remove(self._directory / name)

    def _now(self) -> int:
        return int(self._clock.now()) // HOUR * HOUR

    def _read(self, hour: int) -> dict[Row, UsageRow]:
        try:
            rows = _decode(self._files.read(_file(self._directory, hour)))
        except NotFound:
            return {}
        except (msgspec.DecodeError, LlmgwError, OSError) as error:
            log.warning("the usage of this hour can't be read", why=str(error))
            return {}
        return {(row.key, row.model): row for row in rows}


def kept_rows(directory: Path, files: Files, *, since: float, until: float) -> tuple[UsageRow, ...]:
    """Return what the files of a gateway say of the hours that overlap a time.

    Args:
        directory: the gateway's state directory.
        files: the disk.
        since: seconds since the epoch.
        until: the same.

    Raises:
        Unreadable: a file is damaged.
        OSError: it may not be read.
    """
    rows: list[UsageRow] = []
    for name in files.names(directory / DIRECTORY):
        hour = _hour_of(name)
        if hour is not None and since < hour + HOUR and hour < until:
            try:
                rows.extend(_decode(files.read(directory / DIRECTORY / name)))
            except msgspec.DecodeError as error:
                raise Unreadable(f"{directory / DIRECTORY / name}: {error}") from error
    return tuple(rows)


def _file(directory: Path, hour: int) -> Path:
    return directory / f"{hour}{_SUFFIX}"


def _hour_of(name: str) -> int | None:
    stem = name.removesuffix(_SUFFIX)
    return int(stem) if stem != name and stem.isdecimal() else None
