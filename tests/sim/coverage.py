"""Which of its paths the product took, by its own words. A path that is never taken fails a run."""

import re
from collections import Counter

from tests.sim.watch import Said

PATHS: dict[str, tuple[str, str]] = {
    "shard told to start": ("commands", r"^start_shard"),
    "shard told to stop": ("commands", r"^stop_shard"),
    "adopted after a restart": ("supervisor", r"shard is adopted"),
    "ended while no agent watched": ("shard", r"shard is failed .*no agent watched"),
    "undescribed engine ended": ("supervisor", r"nothing describes is ended"),
    "start of a shard that is there": ("supervisor", r"start of a shard that is there"),
    "held up: does not end": ("shard", r"shard is held up"),
    "record could not be written": ("launch", r"record can't be written"),
    "start refused by a full disk": ("shard", r"shard is failed .*No space left"),
    "weights refused by a full disk": ("fetch", r"weights not fetched .*(free below|No space)"),
    "weights fetched": ("fetch", r"weights fetched"),
    "weights not fetched: nobody answers": (
        "fetch",
        r"weights not fetched .*(refused|broke|ended)",
    ),
    "start limit passed": ("shard", r"shard is stopping .*not ready within"),
    "stale term refused": ("commands", r"command of an older term is declined"),
    "dead peer noticed by an agent": ("dial", r"no stream to a control plane .*no message from"),
    "dead peer noticed by a control plane": ("server", r"stream ended .*no message from"),
    "standby sent an agent on": ("core", r"closes the stream .*(stands by|does not lead)"),
    "newer stream took an older one's place": ("agents", r"agent gone .*opened a newer stream"),
    "leadership lost": ("leader", r"does not lead any more"),
    "leadership taken over": ("leader", r"^leads term=([2-9]|\d\d)"),
    "settled without somebody": ("leader", r"settled .*missing=node"),
    "node unreachable": ("events", r"is unreachable"),
    "node lost": ("events", r"is lost"),
    "node back": ("events", r"is back"),
    "mass loss": ("events", r"nothing is placed anew for them"),
    "mass loss over": ("events", r"the mass loss is over"),
    "start given up": ("periodic", r"gave up the start"),
    "start failed": ("events", r"failed on node"),
    "start failed the third time there": ("events", r"\(the 3\. time there\)"),
    "stuck: no token moved": ("shard", r"shard is stuck .*no token moved"),
    "stuck: canaries were not answered": ("shard", r"shard is stuck .*were not answered"),
    "stuck restarted": ("events", r"it is stuck"),
    "drained": ("events", r"its node is draining"),
    "rolled": ("events", r"the catalog changed since"),
    "scaled down": ("events", r": \d+ wanted, \d+ there"),
    "model left the catalog": ("events", r"left the catalog"),
    "system stopped": ("events", r"the cluster is stopped"),
    "superseded stopped": ("events", r"(took its place while|takes? its place|in its place.*away)"),
    "lost replica replaced": ("events", r"takes the place of .*, lost with"),
    "gone when its node returned": ("events", r"returned without it"),
    "started by a held request": ("events", r"a request waits for it"),
    "stopped while idle": ("events", r"nothing was asked of it for"),
    "scaled up by load": ("events", r"^starts .*in flight, \d+ a replica"),
    "evicted": ("events", r"^evicts"),
    "pre-empted": ("events", r"^pre-empts"),
    "drained until nothing was in flight": ("events", r"nothing is in flight there"),
    "limit of a drain over": ("events", r"the limit of .* is over"),
    "rest of a replica stopped": ("events", r"a shard of it (failed|stopped)"),
    "torn by a lost node": ("events", r"it is lost with|is not in the cluster any more"),
    "engine failed a gateway": ("front", r"an engine failed"),
    "gateway's worker replaced": ("places", r"a worker ended and is replaced"),
    "node refused": ("dial", r"its certificate is denied"),
    "settings brought up": ("periodic", r"told .* the newest settings"),
}
"""By name: the end of the module's name, and what its record says with all its fields."""

DERIVED = (
    "adopted after a change of leader",
    "started elsewhere after three failures",
    "clock jumped under an open stream",
    "half-open link noticed",
    "killed after it ignored SIGTERM",
    "record lost under an engine",
    "command of an older term",
    "replica of several nodes started",
    "request reached an engine",
    "second in which a request was held",
    "drained before its limit",
    "somebody gave way",
    "all that fits is there, and more is wanted",
)
"""Counted by `invariants` from what the product has in its books."""


class Coverage:
    """Counts paths."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._paths = [
            (name, re.compile(rf"(^|\.)({module})$"), re.compile(words))
            for name, (module, words) in PATHS.items()
        ]
        self._by_module: dict[str, list[tuple[str, re.Pattern[str]]]] = {}

    def hear(self, said: Said) -> None:
        """Count what a record is the mark of."""
        paths = self._by_module.get(said.module)
        if paths is None:
            paths = [(n, words) for n, module, words in self._paths if module.search(said.module)]
            self._by_module[said.module] = paths
        if not paths:
            return
        rest = " ".join(f"{name}={value}" for name, value in said.fields.items())
        text = f"{said.words} {rest}"
        for name, words in paths:
            if words.search(text):
                self.counts[name] += 1

    def missing(self) -> list[str]:
        """Return the paths that were never taken."""
        return [name for name in (*PATHS, *DERIVED) if not self.counts[name]]
