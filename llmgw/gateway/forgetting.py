"""Totals of keys that are gone are forgotten, once nobody can add to them and all of them is kept.

A gateway whose keys come and go would otherwise remember each of them until it is started anew. The
parent knows which keys are gone and what of their totals was taken; whether a request of one still
runs is known to the worker alone. So the worker is asked, with the totals that were taken: it
forgets those that are still its newest, and says which. Nothing that was counted is lost, whatever
dies in between: who does not hear the answer has both, and asks again.
"""

from collections.abc import Callable, Iterable, Sequence

from llmgw.gateway.frames import Forget, TableFrame
from llmgw.gateway.places import Place
from llmgw.model.keys import UsageTotals

PAUSE = 10.0
"""Seconds between two questions."""
AT_ONCE = 4096
"""Rows of one worker that are asked about in one question."""


class Forgetting:
    """The keys that are gone and of which something is remembered.

    Args:
        is_kept: says of a worker's totals whether they lie where they are kept, and these are all.
        over: told of a worker's totals that nothing is added to any more.
        now: monotonic seconds.
    """

    def __init__(
        self,
        is_kept: Callable[[int, UsageTotals], bool],
        over: Callable[[int, Iterable[UsageTotals]], None],
        now: Callable[[], float],
    ) -> None:
        self._is_kept = is_kept
        self._over = over
        self._now = now
        self._gone: set[str] = set()
        self._looked = now()

    def told(self, frame: TableFrame) -> None:
        """Note which keys are gone, and which came back."""
        self._gone.update(frame.gone_keys)
        self._gone.difference_update(key.id for key in frame.keys)

    def look(self, places: Sequence[Place]) -> None:
        """Ask about what can be forgotten, now and then; what has no worker needs no answer."""
        if not self._gone or self._now() - self._looked < PAUSE:
            return
        self._looked = self._now()
        remembered: set[str] = set()
        for place in places:
            rows = [row for row in place.totals.values() if row.key in self._gone]
            remembered.update(row.key for row in rows)
            kept = tuple(row for row in rows if self._is_kept(place.number, row))[:AT_ONCE]
            if not kept:
                continue
            if place.active:
                place.send(Forget(totals=kept))
            else:
                self.forgot(place, kept)
        self._gone = remembered

    def forgot(self, place: Place, rows: Sequence[UsageTotals]) -> None:
        """Forget what a worker has forgotten."""
        for row in rows:
            place.totals.pop((row.key, row.model), None)
        self._over(place.number, rows)
