"""How much of one reading of the cards is taken: what is told beyond it no machine has."""

import msgspec

from llmgw_agent.parse.cards import Card, CardProcess, CardsSeen, Instance
from llmgw_agent.parse.plausible import MOST_CARDS

MOST_INSTANCES = 64
"""Of a card; hardware carves seven."""
MOST_PROCESSES = 1024
"""Of a card or an instance: those of this agent's own engines are among them."""


def within(seen: CardsSeen) -> CardsSeen:
    """Return a reading without what is beyond the bounds, and in its trouble what was left out."""
    words: list[str] = []
    cards = tuple(_card(card, words) for card in seen.cards[:MOST_CARDS])
    if len(seen.cards) > MOST_CARDS:
        words.append(left_out("cards", len(seen.cards), MOST_CARDS))
    if not words:
        return seen
    told = [*([] if seen.trouble is None else [seen.trouble]), *words]
    return msgspec.structs.replace(seen, cards=cards, trouble="; ".join(told))


def left_out(things: str, told: int, kept: int) -> str:
    """Return in words that there is more of something than is taken."""
    return f"{told} {things} are told, and all after the first {kept} are left out"


def _card(card: Card, words: list[str]) -> Card:
    processes = _processes(card.processes, words)
    instances = card.instances
    if instances is not None and len(instances) > MOST_INSTANCES:
        words.append(left_out("instances of a card", len(instances), MOST_INSTANCES))
        instances = instances[:MOST_INSTANCES]
    if instances is not None:
        instances = tuple(_instance(one, words) for one in instances)
    return msgspec.structs.replace(card, processes=processes, instances=instances)


def _instance(instance: Instance, words: list[str]) -> Instance:
    return msgspec.structs.replace(instance, processes=_processes(instance.processes, words))


def _processes(
    found: tuple[CardProcess, ...] | None, words: list[str]
) -> tuple[CardProcess, ...] | None:
    if found is None or len(found) <= MOST_PROCESSES:
        return found
    words.append(left_out("processes on a card", len(found), MOST_PROCESSES))
    return found[:MOST_PROCESSES]
