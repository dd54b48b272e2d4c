"""What requests used, as totals of one worker that never fall."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from llmgw.gateway.entry import Entry
from llmgw.gateway.frames import Counted
from llmgw.gateway.meter import Meter
from llmgw.gateway.proxy.usage import BYTES_A_TOKEN, Usage
from llmgw.model.gateway import ModelTraffic
from llmgw.model.keys import UsageTotals

NO_MODEL = ""
"""The model under which requests are counted that were answered before one was known."""


class Charged(Protocol):
    """Somebody who is told what one request used while it is known."""

    def prompt(self, tokens: int) -> None:
        """Take what its prompt was; told at most once."""
        ...

    def completion(self, tokens: int) -> None:
        """Take what was produced since the last call; less than none corrects what was told."""
        ...

    def closed(self) -> None:
        """The request is over; told once, the last thing."""
        ...


class Books:
    """All entries and meters of one worker, and which of them changed since they were last told."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], Entry] = {}
        self._meters: dict[str, Meter] = {}
        self._changed_entries: list[Entry] = []
        self._changed_meters: list[Meter] = []

    def resume(self, totals: Iterable[UsageTotals], traffic: Iterable[ModelTraffic]) -> None:
        """Go on from what the worker before this one has counted."""
        for row in totals:
            self._entries[row.key, row.model] = Entry.resumed(row)
        for seen in traffic:
            meter = self._meters[seen.model] = Meter.resumed(seen)
            self.note_meter(meter)  # what was in flight is not any more

    def forget(self, totals: Iterable[UsageTotals]) -> tuple[UsageTotals, ...]:
        """Forget what is no more than these totals, and can't become more; return what is."""
        forgotten = []
        for total in totals:
            entry = self._entries.get((total.key, total.model))
            if entry is None or entry.running or entry.changed or entry.record() != total:
                continue
            del self._entries[total.key, total.model]
            forgotten.append(total)
        return tuple(forgotten)

    def open(
        self,
        key: str,
        model: str,
        prompt_bytes: int,
        now: float,
        charged: Sequence[Charged] = (),
    ) -> "Account":
        """Return the account of a request that is sent to a model's engines.

        Args:
            key: whose it is.
            model: what it is for.
            prompt_bytes: of its body.
            now: monotonic seconds.
            charged: who else is told what it used.
        """
        entry = self._entries.get((key, model))
        if entry is None:
            entry = self._entries[key, model] = Entry(key, model)
        return Account(self, entry, self._meter(model), prompt_bytes, now, charged)

    def answered(self, status: int) -> None:
        """Count a request that the gateway answered itself, before a model was known."""
        meter = self._meter(NO_MODEL)
        meter.replied(status)
        self.note_meter(meter)

    def refused(self, code: str, model: str = NO_MODEL) -> None:
        """Count a request that the gateway refused, by the code of the refusal."""
        meter = self._meter(model)
        meter.refusals[code] = meter.refusals.get(code, 0) + 1
        self.note_meter(meter)

    def failed(self, code: str, model: str = NO_MODEL) -> None:
        """Count a request that ended with another error of the gateway's, by its code."""
        meter = self._meter(model)
        meter.errors[code] = meter.errors.get(code, 0) + 1
        self.note_meter(meter)

    def waited(self, model: str, seconds: float) -> None:
        """Count a request that waited and went on."""
        meter = self._meter(model)
        meter.waited.add(seconds)
        self.note_meter(meter)

    def note_entry(self, entry: Entry) -> None:
        """Remember that an entry changed."""
        if not entry.changed:
            entry.changed = True
            self._changed_entries.append(entry)

    def note_meter(self, meter: Meter) -> None:
        """Remember that a meter changed."""
        if not meter.changed:
            meter.changed = True
            self._changed_meters.append(meter)

    def take_changes(self) -> Counted | None:
        """Return what changed since the last call; None when nothing did."""
        if not self._changed_entries and not self._changed_meters:
            return None
        entries, self._changed_entries = self._changed_entries, []
        meters, self._changed_meters = self._changed_meters, []
        for entry in entries:
            entry.changed = False
        for meter in meters:
            meter.changed = False
        return Counted(
            totals=tuple(entry.record() for entry in entries),
            traffic=tuple(meter.record() for meter in meters),
        )

    def _meter(self, model: str) -> Meter:
        meter = self._meters.get(model)
        if meter is None:
            meter = self._meters[model] = Meter(model)
        return meter


class Account:
    """One request's account: opened when it is sent to engines, closed exactly once."""

    __slots__ = (
        "_began",
        "_books",
        "_charged",
        "_entry",
        "_first",
        "_meter",
        "_others",
        "_prompt_bytes",
        "is_open",
    )

    def __init__(
        self,
        books: Books,
        entry: Entry,
        meter: Meter,
        prompt_bytes: int,
        now: float,
        others: Sequence[Charged] = (),
    ) -> None:
        self._books = books
        self._entry = entry
        self._meter = meter
        self._prompt_bytes = prompt_bytes
        self._began = now
        self._first: float | None = None
        self._charged = 0
        self._others = others
        self.is_open = True
        entry.requests += 1
        entry.running += 1
        meter.in_flight += 1
        books.note_entry(entry)
        books.note_meter(meter)

    @property
    def began(self) -> float:
        """Return when it was opened; monotonic seconds."""
        return self._began

    def chosen(self, reason: str) -> None:
        """Count why an engine was chosen for it."""
        choices = self._meter.choices
        choices[reason] = choices.get(reason, 0) + 1

    def also(self, charged: Charged) -> None:
        """Tell somebody else too what it uses from now on."""
        self._others = (*self._others, charged)

    def note_refusal(self, code: str) -> None:
        """Count why the gateway refused it."""
        self._books.refused(code, self._meter.model)

    def note_error(self, code: str) -> None:
        """Count with which error of the gateway's it ended."""
        self._books.failed(code, self._meter.model)

    def fell_back(self, to: str, reason: str) -> None:
        """Count that it went elsewhere, because nothing that serves its model could take it."""
        fallbacks = self._meter.fallbacks
        fallbacks[to, reason] = fallbacks.get((to, reason), 0) + 1

    def retried(self) -> None:
        """Count that it went to another engine."""
        self._meter.retries += 1

    def first_byte(self, now: float) -> None:
        """Note when the first byte of a streamed reply came."""
        self._first = now
        self._meter.first_token.add(now - self._began)

    def progress(self, produced: int) -> None:
        """Charge what a running stream has produced up to now."""
        if produced > self._charged:
            self._charge(produced - self._charged)
            self._charged = produced
            self._books.note_entry(self._entry)

    def finished(self, status: int, usage: Usage | None, produced: int, now: float) -> None:
        """Close it: the reply is whole.

        Args:
            status: what the engine answered.
            usage: what the engine said that the request used.
            produced: an estimate, for an engine that said nothing.
            now: monotonic seconds.
        """
        if status < 400:
            tokens = self._settle(usage or Usage(), produced)
            if self._first is not None and tokens > 1:
                self._meter.inter_token.add((now - self._first) / (tokens - 1))
        elif status >= 500:
            self._entry.failed += 1
        self._close(status, now)

    def cancelled(
        self, status: int | None, produced: int, now: float, usage: Usage | None = None
    ) -> None:
        """Close it: the client left. What was produced is charged.

        Args:
            status: what the reply began with; None when it had not begun.
            produced: an estimate of the tokens produced.
            now: monotonic seconds.
            usage: what the engine had said by then that the request used.
        """
        self._entry.cancelled += 1
        self._meter.client_aborts += 1
        self._charge_part(status, produced, usage)
        self._close(status, now)

    def ended(
        self,
        status: int | None,
        produced: int,
        now: float,
        usage: Usage | None = None,
        *,
        answered: int,
    ) -> None:
        """Close it: an operator ended it. What was produced is charged.

        Args:
            status: what the engine's reply began with; None when it had not begun.
            produced: an estimate of the tokens produced.
            now: monotonic seconds.
            usage: what the engine had said by then that the request used.
            answered: the status that the client got.
        """
        self._entry.cancelled += 1
        self._charge_part(status, produced, usage)
        self._close(answered, now)

    def broken(
        self, status: int | None, produced: int, now: float, usage: Usage | None = None
    ) -> None:
        """Close it: the engine ended the reply too early; arguments as for `cancelled`."""
        self._entry.failed += 1
        self._meter.engine_aborts += 1
        self._charge_part(status, produced, usage)
        self._close(status, now)

    def refused(self, status: int, now: float) -> None:
        """Close it: no engine served it, and the client was told so."""
        if status >= 500:
            self._entry.failed += 1
        self._close(status, now)

    def _charge_part(self, status: int | None, produced: int, usage: Usage | None) -> None:
        if status is not None and status < 400:
            self._settle(usage or Usage(), produced)

    def _settle(self, usage: Usage, produced: int) -> int:
        """Charge a reply or what came of it; return its tokens, estimated if it did not say."""
        prompt, completion = usage.prompt_tokens, usage.completion_tokens
        if completion is None and prompt is not None and usage.total_tokens is not None:
            completion = max(0, usage.total_tokens - prompt)
        if prompt is None or completion is None:
            self._entry.estimated += 1
        self._charge_prompt(self._prompt_estimate() if prompt is None else prompt)
        tokens = produced if completion is None else completion
        self._charge(tokens - self._charged)
        return tokens

    def _prompt_estimate(self) -> int:
        return -(-self._prompt_bytes // BYTES_A_TOKEN)

    def _charge_prompt(self, tokens: int) -> None:
        self._entry.prompt += tokens
        self._meter.prompt += tokens
        for other in self._others:
            other.prompt(tokens)

    def _charge(self, tokens: int) -> None:
        self._meter.completion += self._entry.add_completion(tokens)
        for other in self._others:
            other.completion(tokens)

    def _close(self, status: int | None, now: float) -> None:
        self.is_open = False
        self._entry.running -= 1
        if status is not None:
            self._meter.replied(status)
        self._meter.duration.add(now - self._began)
        self._meter.in_flight -= 1
        for other in self._others:
            other.closed()
        self._books.note_entry(self._entry)
        self._books.note_meter(self._meter)
