"""NVLinks of the cards: which are up, and their errors."""

from collections.abc import Collection, Mapping
from typing import Final

from llmgw.base.clock import Clock
from llmgw.base.errors import Unreadable
from llmgw.model.node import NodeWarning
from llmgw_agent.host.apart import apart
from llmgw_agent.parse.gpu_health import LinksUp, links_down, links_up
from llmgw_agent.parse.nvidia_smi_nvlink import CardLinks, read_nvlink
from llmgw_agent.parse.plausible import MOST_CARDS
from llmgw_agent.probe.per_card import PerCard
from llmgw_agent.probe.smi import NvidiaSmi

SUBJECT: Final = "nvlink"


class Links:
    """The links as `nvidia-smi nvlink` lists them; state and errors are asked and fail apart.

    Invariant: of a listing that was cut the last card is not believed, since its links would
    look as if they were down and its errors as if they had become fewer.
    """

    def __init__(self, smi: NvidiaSmi, clock: Clock) -> None:
        self._smi = smi
        self._cards: PerCard[CardLinks] = PerCard(clock)
        self._errors: PerCard[CardLinks] = PerCard(clock)
        self._up: Mapping[str, LinksUp] = {}

    async def read(self) -> None:
        """Ask for states, and where there are links for errors.

        Raises:
            LlmgwError: why one of them could not be read.
        """
        cards, nameless = await self._listing("-s")
        self._cards.put(cards)
        up = {**self._up, **links_up(tuple(cards.values()), self._up)}
        self._up = {uuid: links for uuid, links in up.items() if uuid in self._cards.last}
        if any(card.links for card in cards.values()):
            errors, _ = await self._listing("-e")
            self._errors.put({uuid: e for uuid, e in errors.items() if _all_of(cards.get(uuid), e)})
        if nameless:
            numbers = ", ".join(f"GPU {card.index}" for card in nameless)
            raise Unreadable(f"nvidia-smi nvlink -s: the UUID of {numbers} can't be read")

    def hold(self, uuids: Collection[str]) -> None:
        """Forget the cards that are not among these."""
        self._cards.hold(uuids)
        self._errors.hold(uuids)
        self._up = {uuid: links for uuid, links in self._up.items() if uuid in uuids}

    def up(self, uuid: str) -> LinksUp | None:
        """Return how many links of a card are up; None when it has none or it is not known now."""
        return self._up.get(uuid) if uuid in self._cards.fresh else None

    def errors(self, uuid: str) -> CardLinks | None:
        """Return the errors of a card's links; None when they are not known now."""
        return self._errors.fresh.get(uuid)

    @property
    def warnings(self) -> tuple[NodeWarning, ...]:
        """Return which cards have links down."""
        words = links_down(tuple(self._cards.fresh.values()), self._up)
        return tuple(NodeWarning(subject=SUBJECT, words=text) for text in words)

    async def _listing(self, option: str) -> tuple[dict[str, CardLinks], list[CardLinks]]:
        """Return the cards by UUID, and those of which none could be read."""
        text = await self._smi.ask("nvlink", option) or ""
        cards = await apart(read_nvlink, text)
        whole = (cards if not text or text.endswith("\n") else cards[:-1])[:MOST_CARDS]
        named = {card.uuid: card for card in whole if card.uuid is not None}
        return named, [card for card in whole if card.uuid is None]


def _all_of(state: CardLinks | None, errors: CardLinks) -> bool:
    """Say whether errors are told up to the last link that is up."""
    up = [link.number for link in (() if state is None else state.links or ()) if link.active]
    told = [link.number for link in errors.links or ()]
    return max(told, default=-1) >= max(up, default=-1)
