"""nvidia-imex, which lets GPUs of several machines share memory over NVLink: its two files."""

import re
from typing import Final

from llmgw.base.errors import Unreadable
from llmgw.model.record import Record
from llmgw_agent.parse.lines import lines_of
from llmgw_agent.parse.tool import Tool

CHANNELS: Final = "nvidia-caps-imex-channels"
"""What the driver calls its channels, in /proc/devices and below /dev."""

_DEVICE: Final = re.compile(r"\s*(\d{1,5})\s+(\S+)\s*\Z")
_ADDRESS: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.:_%-]*\Z")


class NvidiaDevices(Record, frozen=True, kw_only=True):
    """The NVIDIA driver's character devices."""

    driver: bool = False
    """The driver itself is loaded."""
    imex_major: int | None = None
    """Device number of IMEX channels; None when this driver has none."""


def read_nodes(text: str) -> tuple[str, ...]:
    """Return the addresses of nodes_config.cfg: those of one NVLink domain, this one's among them.

    Raises:
        Unreadable: a line is no address.
    """
    nodes: list[str] = []
    for line in lines_of(text):
        said = line.partition("#")[0].strip()
        if not said:
            continue
        if not _ADDRESS.match(said):
            raise Unreadable(f"nodes_config.cfg: {said[:80]!r} is no address")
        nodes.append(said)
    return tuple(nodes)


def read_devices(text: str) -> NvidiaDevices:
    """Return what /proc/devices, or a part of it, says of the NVIDIA driver.

    Raises:
        Unreadable: there is text, and no line of it is a device.
    """
    matches = [match for line in lines_of(text) if (match := _DEVICE.match(line))]
    if not matches and text.strip():
        raise Unreadable(f"/proc/devices: {' '.join(text.split())[:80]!r} lists no device")
    majors = {match[2]: int(match[1]) for match in matches}
    return NvidiaDevices(
        driver="nvidia" in majors or "nvidia-frontend" in majors, imex_major=majors.get(CHANNELS)
    )


TOOLS = (
    Tool("imex-nodes", "cat /etc/nvidia-imex/nodes_config.cfg", read_nodes),
    Tool("imex-devices", "cat /proc/devices", read_devices),
)
