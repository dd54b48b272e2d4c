"""The NVLink fabric of cards: the Fabric section of `nvidia-smi -q`, and what people cut from it.

Lines may carry the node's name (pdsh), only some of them may be left (grep), and gpud prints the
same facts as a table.
"""

import re
from collections.abc import Iterator
from typing import Final

from llmgw.base.errors import Unreadable
from llmgw.model.device import NvlinkFabric
from llmgw.model.record import Record
from llmgw_agent.parse.lines import lines_of
from llmgw_agent.parse.nvidia_smi_sections import Section
from llmgw_agent.parse.pci import pci_key

_PREFIX: Final = re.compile(r"([\w.-]+):(?=\s)")
_ROW: Final = re.compile(r"\|([^|]*)\|([^|]*)\|")
_KEYS: Final = {
    "State": "State",
    "Status": "Status",
    "CliqueId": "CliqueId",
    "Clique ID": "CliqueId",
    "ClusterUUID": "ClusterUUID",
    "Cluster UUID": "ClusterUUID",
    "Summary": "Summary",
    "Health Summary": "Summary",
    "Bandwidth": "Bandwidth",
}
_NO_FABRIC: Final = "Not Supported"
"""A state of NVML's own (NVML_GPU_FABRIC_STATE_NOT_SUPPORTED), not an absent answer."""


class FabricReading(Record, frozen=True, kw_only=True):
    """One card's fabric, as it was found in a text."""

    node: str | None = None
    gpu: str | None = None
    """Its PCI address or UUID, whichever the text gives."""
    fabric: NvlinkFabric | None = None


def read_fabric(section: Section) -> NvlinkFabric | None:
    """Return a Fabric section; None when it tells nothing, as of a card that has none."""
    health = section.part("Health")
    state = _NO_FABRIC if section.part("State").value == _NO_FABRIC else section.text("State")
    fabric = NvlinkFabric(
        state=state,
        status=section.text("Status"),
        cluster_uuid=section.text("ClusterUUID"),
        clique_id=section.count("CliqueId"),
        bandwidth=health.text("Bandwidth"),
        health=health.text("Summary"),
    )
    return None if fabric == NvlinkFabric() else fabric


def is_cluster(uuid: str | None) -> bool:
    """Say whether a cluster's UUID is one: zeros are what one machine's own NVSwitches give."""
    return uuid is not None and not set(uuid) <= {"0", "-"}


def read_fabrics(text: str) -> tuple[FabricReading, ...]:
    """Return the fabric of each card that the text tells of, in its order.

    A line that tells again what is told already begins the next card.

    Raises:
        Unreadable: there is text, and nothing of a fabric in it.
    """
    found: list[_Found] = []
    last: dict[str | None, _Found] = {}
    for node, name, value in _lines(text):
        current = last.get(node)
        gpu = value if name == "GPU" else None
        if current is None or gpu is not None or name in current.said:
            current = last[node] = _Found(node, gpu)
            found.append(current)
        if gpu is None:
            current.said[name] = value
    readings = tuple(one.reading() for one in found if one.said)
    if not readings and text.strip():
        raise Unreadable(f"{' '.join(text.split())[:120]!r} tells of no NVLink fabric")
    return readings


class _Found:
    """What was said of one card so far."""

    def __init__(self, node: str | None, gpu: str | None) -> None:
        self.node = node
        self.gpu = gpu
        self.said: dict[str, str] = {}

    def reading(self) -> FabricReading:
        lines = [Section(name, value) for name, value in self.said.items()]
        section = Section("Fabric", None, [*lines, Section("Health", None, lines)])
        return FabricReading(node=self.node, gpu=self.gpu, fabric=read_fabric(section))


def _lines(text: str) -> Iterator[tuple[str | None, str, str]]:
    """Yield node, key and value of each line that matters; `GPU` heads what follows."""
    for line in lines_of(text):
        prefix = _PREFIX.match(line)
        node = None if prefix is None else prefix[1]
        said = line if prefix is None else line[prefix.end() :]
        row = _ROW.match(said.strip())
        name, value = _cells(said) if row is None else (row[1].strip(), row[2].strip())
        if name in ("GPU UUID", "GPU") and value:
            yield node, "GPU", value
        elif name in _KEYS:
            yield node, _KEYS[name], value


def _cells(line: str) -> tuple[str, str]:
    """Return name and value of a line; of a card's headline `GPU` and its address.

    The UUID line of a report names the card a second time and is left out.
    """
    word, _, address = line.strip().partition(" ")
    if word == "GPU" and pci_key(address) is not None:
        return "GPU", address
    name, _, value = line.partition(" :")
    return ("", "") if name.strip() == "GPU UUID" else (name.strip(), value.strip())
