"""What is wrong with gateways, or with what they say: each is told once, as an event."""

from llmgw.base.clock import Clock
from llmgw.control.events import Events
from llmgw.control.gateway_session import GatewaySession
from llmgw.control.peer_session import CLASH_SHOWN
from llmgw.model.bounds import Cuts
from llmgw.model.events import WARNING
from llmgw.model.gateway import EndpointDown

DOWN_MOST = 256
"""Engines that gateways can't reach and that are told apart; of more, nobody is told."""
DOWN_FOR = 60.0
"""Seconds for which an engine that a gateway could not reach is told once, not at each attempt."""


class GatewayTroubles:
    """Tells of each trouble of a gateway once while it goes on, however often it comes up."""

    def __init__(self, events: Events, clock: Clock) -> None:
        self._events = events
        self._clock = clock
        self._down: dict[tuple[str, str], float] = {}

    def clash(self, held: GatewaySession, refused: str) -> None:
        """Tell of two gateways with one id, once while the other tries again and again."""
        host, now = refused.rpartition(":")[0], self._clock.monotonic()
        last = held.clashed if host == held.clashed_with else None
        known = last is not None and now - last < CLASH_SHOWN
        held.clashed, held.clashed_with = now, host
        if not known:
            words = (
                f"two gateways use the id {held.identity.id}: {held.stream.peer} is connected, "
                f"{refused} was refused"
            )
            self._events.add("gateway", held.identity.id, words, severity=WARNING)

    def cut(self, session: GatewaySession, cut: Cuts) -> None:
        """Tell of which fields a gateway says more than is kept."""
        new = sorted(cut.keys() - session.cut)
        if new:
            session.cut.update(new)
            told = ", ".join(cut[field] for field in new)
            gateway = session.identity.id
            words = f"gateway {gateway} says more than is kept, the rest is cut: {told}"
            self._events.add("gateway", gateway, words, severity=WARNING)

    def endpoint_down(self, session: GatewaySession, down: EndpointDown) -> None:
        """Tell of an engine that a gateway can't reach."""
        which = (session.identity.id, down.replica)
        now = self._clock.monotonic()
        last = self._down.get(which)
        self._down = {w: at for w, at in self._down.items() if now - at < DOWN_FOR}
        if last is None and len(self._down) >= DOWN_MOST:
            return
        if last is None or now - last >= DOWN_FOR:
            self._down[which] = now
            self._events.add(
                "replica",
                down.replica,
                f"{down.replica}: gateway {session.identity.id} can't reach it: {down.words}",
                severity=WARNING,
                source=session.identity.id,
            )
