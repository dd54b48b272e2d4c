"""nvidia-smi in memory, and readings of cards for probes that are tested without either reader."""

from collections.abc import Mapping, Sequence

from llmgw.base.errors import LlmgwError, NotFound
from llmgw.base.world import Done
from llmgw_agent.parse.cards import Card

UUID = "GPU-690adda0-83a8-3d78-cc28-02a859b88a85"
OTHER = "GPU-1954f77f-b1d1-8dba-6fd1-0cf40b811dd9"

Answer = Done | LlmgwError


class FakeSmi:
    """Answers by field and card; `faults` answers instead, by the beginning of the question.

    Args:
        cards: each card's values by field, as they are printed.
        texts: answers to other questions, by their arguments.
        apps: rows of `--query-compute-apps`.
    """

    def __init__(
        self,
        *cards: dict[str, str],
        texts: Mapping[str, str] | None = None,
        apps: Sequence[str] = (),
    ) -> None:
        self.cards = list(cards)
        self.texts = dict(texts or {})
        self.apps = list(apps)
        self.unknown: set[str] = set()
        """Fields that this driver does not know."""
        self.faults: dict[str, Answer] = {}
        self.asked: list[str] = []

    def __call__(self, argv: Sequence[str]) -> Answer:
        tool, *arguments = argv
        assert tool == "nvidia-smi"
        question = " ".join(arguments)
        self.asked.append(question)
        for beginning, fault in self.faults.items():
            if question.startswith(beginning):
                return fault
        if question.startswith("--query-gpu="):
            return self._query(arguments[0].partition("=")[2].split(","))
        if question.startswith("--query-compute-apps="):
            header = "gpu_uuid, pid, used_gpu_memory [MiB], process_name"
            return Done(0, "".join(f"{line}\n" for line in (header, *self.apps)), "")
        if question in self.texts:
            return Done(0, self.texts[question], "")
        return Done(1, "Invalid combination of input arguments.\n", "")

    def _query(self, fields: Sequence[str]) -> Done:
        for field in fields:
            if field in self.unknown:
                return Done(2, f'Field "{field}" is not a valid field to query.\n', "")
        rows = [", ".join(card.get(field, "[N/A]") for field in fields) for card in self.cards]
        return Done(0, "".join(f"{line}\n" for line in (", ".join(fields), *rows)), "")


def h100(index: int = 0, uuid: str = UUID, **more: str) -> dict[str, str]:
    """Return an H100's values as nvidia-smi prints them; `more` by field, dots as `__`."""
    values = {
        "index": str(index),
        "uuid": uuid,
        "name": "NVIDIA H100 80GB HBM3",
        "pci.bus_id": f"00000000:1{index}:00.0",
        "memory.total": "81559",
        "memory.used": "1234",
        "utilization.gpu": "97",
        "utilization.memory": "40",
        "temperature.gpu": "55",
        "power.draw": "612.30",
        "enforced.power.limit": "700.00",
        "clocks.sm": "1980",
        "driver_version": "550.54.15",
        "mig.mode.current": "Disabled",
        "compute_cap": "9.0",
        "pcie.link.gen.max": "5",
        "pcie.link.gen.gpumax": "5",
        "pcie.link.width.current": "16",
        "pcie.link.width.max": "16",
    }
    return {**values, **{name.replace("__", "."): value for name, value in more.items()}}


def no_library(_request: object) -> NotFound:
    """Answer as a helper on a machine without NVML."""
    return NotFound("the NVIDIA library is not on this machine")


def card(index: int = 0, uuid: str = UUID, **more: object) -> Card:
    """Return a card as a reader gives it."""
    return Card(
        index=index,
        uuid=uuid,
        name="NVIDIA H100 80GB HBM3",
        pci_address=f"00000000:1{index}:00.0",
        memory_total=81559 << 20,
        **more,  # type: ignore[arg-type]
    )
