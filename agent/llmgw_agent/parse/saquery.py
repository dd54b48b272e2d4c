"""`saquery` of infiniband-diags: what the subnet administrator knows of subnet managers."""

import re
from collections.abc import Iterator, Mapping

from llmgw.base.errors import Unreadable
from llmgw.model.fabric import SubnetManager
from llmgw.model.record import Record
from llmgw_agent.parse import ib_values
from llmgw_agent.parse.sminfo import STATES
from llmgw_agent.parse.tool import Tool

_FIELD = re.compile(r"\s*(?P<name>\w+)\.{2,}(?P<value>[^\s.]\S*)\s*\Z")
_MANAGER = "SMInfoRecord dump:"
_PORT = "PortInfoRecord dump:"
_ENABLED, _DISABLED = "IsSM ports", "IsSMdisabled ports"
_NO_ADMINISTRATOR = "No SM/SA found"


class SmPort(Record, frozen=True, kw_only=True):
    """A port of the fabric that a subnet manager can run on."""

    lid: int | None = None
    number: int | None = None
    master_lid: int | None = None
    disabled: bool | None = None
    """Its manager was told not to become master."""


def read_managers(text: str) -> tuple[SubnetManager, ...]:
    """Return the subnet managers of `saquery SMIR`; none: no administrator answers.

    Raises:
        Unreadable: neither is said.
    """
    found = [_manager(fields) for title, fields in _dumps(text) if title == _MANAGER]
    if not found and _NO_ADMINISTRATOR not in text:
        raise _unreadable(text)
    return tuple(manager for manager in found if manager is not None)


def read_sm_ports(text: str) -> tuple[SmPort, ...]:
    """Return the ports of `saquery -s`.

    Raises:
        Unreadable: it is no such text.
    """
    if not {_ENABLED, _DISABLED} & {line.strip() for line in text.splitlines()}:
        raise _unreadable(text)
    disabled: bool | None = None
    found = []
    for title, fields in _dumps(text):
        if title == _PORT:
            found.append(_sm_port(fields, disabled))
        elif title in {_ENABLED, _DISABLED}:
            disabled = title == _DISABLED
    return tuple(found)


def _read(text: str) -> tuple[SubnetManager, ...] | tuple[SmPort, ...]:
    return read_sm_ports(text) if _ENABLED in text or _DISABLED in text else read_managers(text)


def _dumps(text: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Return each title of a section or dump, with the fields below it."""
    title = ""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        if line.strip() in {_MANAGER, _PORT, _ENABLED, _DISABLED}:
            yield title, fields
            title, fields = line.strip(), {}
        elif (field := _FIELD.match(line)) is not None:
            fields.setdefault(field["name"], field["value"])
    yield title, fields


def _manager(fields: Mapping[str, str]) -> SubnetManager | None:
    guid = ib_values.guid(fields.get("GUID"))
    if guid is None:
        return None
    priority, state = (ib_values.whole(fields.get(name)) for name in ("Priority", "SMState"))
    return SubnetManager(
        guid=guid,
        lid=ib_values.lid(fields.get("LID")),
        priority=priority,
        state=None if state is None else STATES.get(state),
    )


def _sm_port(fields: Mapping[str, str], disabled: bool | None) -> SmPort:
    return SmPort(
        lid=ib_values.lid(fields.get("base_lid") or fields.get("EndPortLid")),
        number=ib_values.whole(fields.get("PortNum")),
        master_lid=ib_values.lid(fields.get("master_sm_base_lid")),
        disabled=disabled,
    )


def _unreadable(text: str) -> Unreadable:
    said = text.strip().splitlines() or [""]
    return Unreadable(f"saquery: {said[0][:120]!r} tells of no subnet manager")


TOOLS = (Tool("saquery", how="saquery -C mlx5_0 -P 1 SMIR", read=_read),)
