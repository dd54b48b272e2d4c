"""Asking for the NVIDIA cards: through NVML where its library is, else nvidia-smi."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, NotFound, Unreadable
from llmgw.base.world import Done, Processes
from llmgw_agent.host.apart import apart
from llmgw_agent.host.helper import Helper
from llmgw_agent.parse import nvidia_smi
from llmgw_agent.parse.card_bounds import within
from llmgw_agent.parse.cards import CardProcess, CardsSeen
from llmgw_agent.parse.mig import contradictions, with_instances
from llmgw_agent.parse.nvidia_smi_errors import read_failure, unknown_field
from llmgw_agent.parse.nvidia_smi_list import read_list
from llmgw_agent.parse.nvidia_smi_table import read_table
from llmgw_agent.parse.nvidia_smi_xml import read_report
from llmgw_agent.probe.card_request import CARDS, LINKS, USE, ReadCards
from llmgw_agent.probe.smi import NvidiaSmi

_SILENCE: Final = 20.0

LONGEST: Final = 150.0
"""Seconds for which an answer is waited for, those to others included: each question to the library
and each run of the tool is given up long before."""

_FIELDS: Mapping[str, tuple[str, ...]] = {
    CARDS: (*nvidia_smi.CARD_FIELDS, *nvidia_smi.NEWER_FIELDS),
    USE: nvidia_smi.USE_FIELDS,
    LINKS: nvidia_smi.LINK_FIELDS,
}


class CardReader:
    """Asks for one thing at a time, since a second question waits for the first one anyway.

    Args:
        helper: asks NVML (`probe.nvml_side`).
        processes: runs nvidia-smi.
        clock: the time.
    """

    def __init__(self, helper: Helper, processes: Processes, clock: Clock) -> None:
        self._helper = helper
        self._tool = SmiCards(NvidiaSmi(processes, clock))
        self._library = True
        self._one_at_a_time = asyncio.Lock()

    async def read(self, part: str) -> CardsSeen:
        """Return a reading of one part: cards, their use, or their links.

        Raises:
            NotFound: neither library nor tool is on this machine.
            LlmgwError: why there is none.
        """
        async with self._one_at_a_time:
            seen = await self._through_library(part)
            return within(seen if seen is not None else await self._tool.read(part))

    async def close(self) -> None:
        """End the helper."""
        await self._helper.close()

    async def _through_library(self, part: str) -> CardsSeen | None:
        """Return NVML's reading; None when the library is not there."""
        if not self._library:
            return None
        try:
            return await self._helper.ask(ReadCards(part=part), CardsSeen, silence=_SILENCE)
        except NotFound:
            # Once is enough: a driver that is installed later comes with nvidia-smi as well.
            self._library = False
            await self._helper.close()
            return None


class SmiCards:
    """The cards as nvidia-smi tells of them."""

    def __init__(self, smi: NvidiaSmi) -> None:
        self._smi = smi
        self._fields = dict(_FIELDS)
        self._named: CardsSeen | None = None
        """The cards when their instances were last listed."""
        self._cuda: str | None = None
        self._names: Mapping[int, str | None] = {}
        """Of the processes that were there last."""

    async def read(self, part: str) -> CardsSeen:
        """Return a reading of one part."""
        seen = await self._query(part)
        if part == LINKS:
            return await self._with_cuda(seen)
        if any(card.mig for card in seen.cards):
            seen = await self._with_instances(seen, part)
        return await self._with_processes(seen) if part == USE else seen

    async def _query(self, part: str) -> CardsSeen:
        """Ask with every field; leave out what an older driver refuses."""
        while True:
            fields = self._fields[part]
            done = await self._smi.run(f"--query-gpu={','.join(fields)}", "--format=csv,nounits")
            seen = await apart(partial(_answer, done, fields), f"{done.out}\n{done.err}")
            if isinstance(seen, CardsSeen):
                return seen
            self._fields[part] = await self._without(seen, fields)

    async def _without(self, refused: str, fields: tuple[str, ...]) -> tuple[str, ...]:
        """Return the fields that are known: those that the tool lists, less the refused one."""
        try:
            done = await self._smi.run("--help-query-gpu")
            known = await apart(nvidia_smi.read_fields, done.out)
        except LlmgwError:
            known = frozenset(fields)
        wanted = (
            nvidia_smi.INSTEAD[field]
            if field not in known and nvidia_smi.INSTEAD.get(field) in known
            else field
            for field in fields
        )
        return tuple(field for field in wanted if field in known and field != refused)

    async def _with_cuda(self, seen: CardsSeen) -> CardsSeen:
        """Return the cards with the newest CUDA that the driver runs, told by the table alone."""
        trouble = None
        if self._cuda is None and seen.cards:
            try:
                self._cuda = (await apart(read_table, (await self._smi.run()).out)).cuda
            except LlmgwError as error:
                trouble = f"CUDA version: {error.message}"
        return msgspec.structs.replace(seen, cuda=self._cuda, trouble=trouble)

    async def _with_instances(self, seen: CardsSeen, part: str) -> CardsSeen:
        troubles: list[str] = []
        report = await self._told(("-q", "-x"), read_report, troubles)
        listed = await self._told(("-L",), read_list, troubles) if part == CARDS else None
        named = with_instances(seen, report, listed, self._named)
        if listed is not None:
            self._named = named
            troubles += contradictions(seen, report, listed)
        self._cuda = self._cuda if report is None else report.cuda
        return msgspec.structs.replace(
            named,
            cuda=named.cuda if report is None else report.cuda,
            trouble="; ".join(troubles) or None,
        )

    async def _told(
        self,
        arguments: tuple[str, ...],
        read: Callable[[str], CardsSeen],
        troubles: list[str],
    ) -> CardsSeen | None:
        """Return what another question gives; None when it fails, which costs its part alone."""
        try:
            return await apart(read, (await self._smi.run(*arguments)).out)
        except LlmgwError as error:
            troubles.append(f"nvidia-smi {' '.join(arguments)}: {error.message}")
            return None

    async def _with_processes(self, seen: CardsSeen) -> CardsSeen:
        """Return the cards with the processes that compute on them.

        Without cards nobody is asked: the tool would fail.
        """
        if not seen.cards:
            return seen
        fields = ",".join(nvidia_smi.APP_FIELDS)
        done = await self._smi.run(f"--query-compute-apps={fields}", "--format=csv,nounits")
        if done.rc != 0:
            said = " ".join(f"{done.out} {done.err}".split())[:200]
            raise Unreadable(f"nvidia-smi --query-compute-apps: {said!r}")
        processes = await self._named_processes(await apart(nvidia_smi.read_processes, done.out))
        found = nvidia_smi.with_processes(seen, processes)
        by_report = {card.uuid: card for card in seen.cards if card.mig and card.instances}
        return msgspec.structs.replace(
            found, cards=tuple(by_report.get(card.uuid, card) for card in found.cards)
        )

    async def _named_processes(
        self, found: Mapping[str, tuple[CardProcess, ...]]
    ) -> Mapping[str, tuple[CardProcess, ...]]:
        """Return processes with their names, which are asked for when there is a new process.

        Apart from the rest: what stands in a name must not pass for a process.
        """
        pids = {process.pid for processes in found.values() for process in processes}
        if pids - self._names.keys():
            names = await self._told_names()
            self._names = {**dict.fromkeys(pids), **self._names, **names}
        self._names = {pid: name for pid, name in self._names.items() if pid in pids}
        return {
            uuid: tuple(
                msgspec.structs.replace(process, name=process.name or self._names.get(process.pid))
                for process in processes
            )
            for uuid, processes in found.items()
        }

    async def _told_names(self) -> Mapping[int, str]:
        """Return names by pid; none where nobody tells them, which costs the names alone."""
        fields = ",".join(nvidia_smi.APP_NAME_FIELDS)
        try:
            done = await self._smi.run(f"--query-compute-apps={fields}", "--format=csv,nounits")
            return await apart(nvidia_smi.read_names, done.out) if done.rc == 0 else {}
        except LlmgwError:
            return {}


def _answer(done: Done, fields: tuple[str, ...], said: str) -> CardsSeen | str:
    """Return what a query gave, or which of its fields this driver does not know.

    Args:
        done: the run.
        fields: what was asked for.
        said: everything that it printed.
    """
    refused = unknown_field(said)
    if refused is not None and refused in fields:
        return refused
    if nvidia_smi.has_header(done.out):
        return nvidia_smi.read_cards(done.out, fields)
    return read_failure(said, done.rc)
