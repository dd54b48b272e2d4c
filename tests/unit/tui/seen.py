"""Recorded fleets as a console would know them."""

from llmgw.client.interface import LIVE, Change, Connection, WatchBatch
from llmgw_tui.draw.seen import When
from llmgw_tui.store.fleet import TOPICS, Fleet
from tests.fakes.feed import built
from tests.fakes.fleet_parts import NOW
from tests.fakes.fleets import FLEETS


def fleet_of(name: str) -> tuple[Fleet, When]:
    """Return a recorded fleet in a store, and the moment at which it was recorded."""
    recorded = FLEETS[name]()
    fleet = Fleet()
    changes = tuple(
        Change(topic, id_, built(record))
        for topic in TOPICS
        for id_, record in recorded.topics.get(topic, {}).items()
    )
    fleet.take(WatchBatch(Connection(LIVE, NOW, NOW), changes, listing=True))
    return fleet, When(NOW)
