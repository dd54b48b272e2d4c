"""A verdict names every reason, also those that its words only count."""

from llmgw.cli.ctl.plan import COLUMNS
from llmgw.model.catalog import Model, PathSource, Profile
from llmgw.model.device import Device
from llmgw.model.node import Inventory, Node
from llmgw.plan.placement.devices import shortage
from llmgw.plan.placement.request import request
from llmgw.plan.placement.room import Space
from llmgw.plan.records import Booking, NodeRoom, Verdict

PROFILE = Profile(name="p", engine="vllm", gpus=8)
MODEL = Model(name="big", source=PathSource(path="/m"), profiles=(PROFILE,))


def verdict(*holders: str) -> Verdict:
    devices = tuple(Device(uuid=f"GPU-{n}", number=n, device_class="h") for n in range(8))
    bookings = tuple(
        Booking(replica=holder, rank=0, model="m", devices=(f"GPU-{number}",))
        for number, holder in enumerate(holders)
    )
    room = NodeRoom(node=Node(id="n", inventory=Inventory(devices=devices)), bookings=bookings)
    return shortage(request(MODEL, PROFILE, ordered={}, held_back={}), Space(room, set()))


def test_devices_that_one_thing_keeps_are_named_as_a_run() -> None:
    found = verdict(*["a-1"] * 8)
    assert found.words == "n: 0 of 8 GPUs free, needs 8: gpu0-gpu7 held by a-1"
    assert found.reasons == ("gpu0-gpu7 held by a-1",)


def test_reasons_that_words_only_count_are_all_there_and_wide_tables_show_them() -> None:
    found = verdict("a-1", "b-1", "c-1", "d-1", "e-1")
    assert found.words.endswith("gpu2 held by c-1 and 2 more")
    assert found.reasons == tuple(
        f"gpu{number} held by {name}-1" for number, name in enumerate("abcde")
    )
    (column,) = [one for one in COLUMNS if one.title == "WORDS"]
    row = {"verdict": {"words": found.words, "reasons": found.reasons}}
    assert column.show(row) == found.words
    assert column.full is not None
    whole = column.full(row)
    assert all(reason in whole for reason in found.reasons)
    assert "more" not in whole
