"""`ibstatus` of infiniband-diags: a script that prints ports as sysfs has them."""

import re
from collections.abc import Iterator, Mapping

from llmgw.base.errors import Unreadable
from llmgw.model.fabric import Port
from llmgw_agent.parse import ib_values
from llmgw_agent.parse.tool import Tool

_HEAD = re.compile(
    r"Infiniband device '(?P<adapter>[^']+)' port (?P<number>[0-9]{1,3}) status:\s*\Z"
)
_FIELD = re.compile(r"\s+(?P<name>[a-z][a-z_ ]*):\s+(?P<value>\S.*)\Z")
_NO_DEVICES = "No devices"


class StatusPort(Port, frozen=True, kw_only=True):
    """A port with what ibstatus tells beside it."""

    sm_lid: int | None = None
    """LID of the subnet manager that configured it."""


def read_ibstatus(text: str) -> tuple[StatusPort, ...]:
    """Return the ports, in the order of the text.

    Raises:
        Unreadable: there is text that neither names a port nor says that there are none.
    """
    ports = tuple(_port(*block) for block in _blocks(text))
    if not ports and text.strip() and _NO_DEVICES not in text:
        raise Unreadable(f"ibstatus: {text.strip().splitlines()[0][:80]!r} is no port")
    return ports


def _blocks(text: str) -> Iterator[tuple[str, int, Mapping[str, str]]]:
    head: re.Match[str] | None = None
    fields: dict[str, str] = {}
    for line in text.splitlines():
        match, field = _HEAD.match(line), _FIELD.match(line.rstrip())
        if match is not None:
            if head is not None:
                yield head["adapter"], int(head["number"]), fields
            head, fields = match, {}
        elif field is not None:
            fields.setdefault(field["name"], field["value"])
    if head is not None:
        yield head["adapter"], int(head["number"]), fields


def _port(adapter: str, number: int, fields: Mapping[str, str]) -> StatusPort:
    state = ib_values.state(fields.get("state"))
    physical = ib_values.physical_state(fields.get("phys state"))
    return StatusPort(
        adapter=adapter,
        number=number,
        link_layer=ib_values.link_layer(fields.get("link_layer")),
        state=state,
        physical_state=physical,
        rate=ib_values.rate(fields.get("rate"), state, physical),
        lid=ib_values.lid(fields.get("base lid")),
        sm_lid=ib_values.lid(fields.get("sm lid")),
        port_guid=ib_values.port_guid(fields.get("default gid")),
    )


TOOLS = (Tool("ibstatus", how="ibstatus", read=read_ibstatus),)
