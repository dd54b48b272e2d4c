"""`ibstat` of infiniband-diags: adapters and their ports, as libibumad tells them."""

import re
from collections.abc import Iterator, Mapping

from llmgw.base.errors import Unreadable
from llmgw.model.fabric import Port
from llmgw_agent.parse import ib_values
from llmgw_agent.parse.tool import Tool

_ADAPTER = re.compile(r"CA '(?P<name>[^']+)'\s*\Z")
_PORT = re.compile(r"\s+Port (?P<number>[0-9]{1,3}):\s*\Z")
_FIELD = re.compile(r"\s+(?P<name>[A-Z][A-Za-z ]*): *(?P<value>\S.*)\Z")
_PANIC = "ibpanic: "


def read_ibstat(text: str) -> tuple[Port, ...]:
    """Return the ports; none for a machine without adapters, where ibstat prints nothing.

    It may end with `ibpanic` after adapters that it could read, and those count.

    Raises:
        Unreadable: there is text, and no adapter in it.
    """
    ports: list[Port] = []
    adapters = 0
    for adapter, lines in _blocks(text):
        adapters += 1
        ports.extend(_ports(adapter, lines))
    if not adapters and text.strip():
        raise Unreadable(f"ibstat: {text.strip().splitlines()[0][:80]!r} is no adapter")
    return tuple(ports)


def panic_of(text: str) -> str | None:
    """Return why ibstat did not go on to the end; None: it did."""
    for line in text.splitlines():
        if line.startswith(_PANIC):
            return line.removeprefix(_PANIC)[:200].strip()
    return None


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    adapter: str | None = None
    lines: list[str] = []
    for line in text.splitlines():
        match = _ADAPTER.match(line)
        if match is not None:
            if adapter is not None:
                yield adapter, lines
            adapter, lines = match["name"], []
        else:
            lines.append(line)
    if adapter is not None:
        yield adapter, lines


def _ports(adapter: str, lines: list[str]) -> Iterator[Port]:
    of_adapter: dict[str, str] = {}
    of_port: dict[str, str] = of_adapter
    numbered: dict[int, dict[str, str]] = {}
    for line in lines:
        port = _PORT.match(line)
        field = _FIELD.match(line.rstrip())
        if port is not None:
            of_port = numbered.setdefault(int(port["number"]), {})
        elif field is not None:
            of_port.setdefault(field["name"], field["value"])
    for number, fields in numbered.items():
        yield _port(adapter, number, fields, of_adapter)


def _port(adapter: str, number: int, fields: Mapping[str, str], above: Mapping[str, str]) -> Port:
    state = ib_values.state(fields.get("State"))
    physical = ib_values.physical_state(fields.get("Physical state"))
    return Port(
        adapter=adapter,
        number=number,
        link_layer=ib_values.link_layer(fields.get("Link layer")),
        state=state,
        physical_state=physical,
        rate=ib_values.rate(fields.get("Rate"), state, physical),
        lid=ib_values.lid(fields.get("Base lid")),
        node_guid=ib_values.guid(above.get("Node GUID")),
        port_guid=ib_values.guid(fields.get("Port GUID")),
    )


TOOLS = (Tool("ibstat", how="ibstat", read=read_ibstat),)
