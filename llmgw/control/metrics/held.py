"""Which model's replica holds which device: joins devices' readings with models."""

from llmgw.control.metrics.devices import NODE_GONE
from llmgw.control.metrics.family import Figures, NodeFamily
from llmgw.control.metrics.onenode import DEVICE, OneNode, first_of
from llmgw.control.metrics.text import shown


def _held(node: OneNode) -> Figures:
    texts = {device.uuid: text for text, device in node.devices}
    return first_of(
        (
            (
                f'{texts[uuid]},replica="{shown(booking.replica)}",rank="{booking.rank}",'
                f'model="{shown(booking.model or node.models_of.get(booking.replica, ""))}"'
            ),
            1.0,
        )
        for booking in node.room.bookings
        for uuid in booking.devices
        if uuid in texts
    )


FAMILIES = (
    NodeFamily(
        name="llmgw_gpu_held",
        labels=(*DEVICE, "replica", "rank", "model"),
        unit="1",
        help="1 for a device that a live shard holds; joins its readings with the model.",
        absent="nobody of llmgw's holds it, or " + NODE_GONE,
        read=_held,
    ),
)
