"""What each rule of placement says, and which devices and nodes are taken."""

from dataclasses import replace

import msgspec
import pytest

from llmgw.model.catalog import HubSource, PathSource
from llmgw.model.device import Device, DeviceSample, ForeignProcess, PciLink
from llmgw.model.fabric import Port
from llmgw.model.node import Filesystem, InstalledEngine, Node, WeightsHeld
from llmgw.model.replica import Replica, ReplicaShard
from llmgw.model.weights import cache_name
from llmgw.plan.placement.groups import together
from llmgw.plan.placement.kinds import passes
from llmgw.plan.placement.place import Placement, book, place
from llmgw.plan.placement.request import Request, request
from llmgw.plan.placement.room import Room
from llmgw.plan.records import (
    NEVER,
    NOT_NOW,
    NOT_UNLESS_EVICTED,
    Booking,
    NodeRoom,
    Observed,
    Refusal,
    Verdict,
)
from tests.unit.plan.fleet import GB, H100, gpu, mig, model, node

TAKEN_BACK = "`llmgw ctl node uncordon n` takes it back"


def room(*nodes: Node, **bookings: tuple[Booking, ...]) -> Room:
    """A room; bookings by node id with `_` for `-`."""
    rooms = [
        NodeRoom(node=one, bookings=bookings.get(one.id.replace("-", "_"), ())) for one in nodes
    ]
    return Room(Observed(nodes=tuple(rooms), replicas=()))


def wanted(name: str = "qwen", *, ordered: tuple[str, ...] = (), **profile) -> Request:
    one = model(name, **profile)
    return request(one, one.profiles[0], ordered=ordered)


def placed(asked: Request, there: Room) -> Placement:
    answer = place(asked, there)
    assert isinstance(answer, Placement), answer.words
    return answer


def turned_away(asked: Request, there: Room) -> Verdict:
    """The verdict on the only node."""
    answer = place(asked, there)
    assert isinstance(answer, Refusal)
    (candidate,) = answer.candidates
    assert answer.words == candidate.verdict.words
    return candidate.verdict


def held(replica: str, *devices: str, memory: int | None = None, cores: int | None = None):
    return Booking(
        replica=replica,
        rank=0,
        model="other",
        devices=devices,
        memory_bytes=memory,
        cpu_cores=cores,
    )


def test_of_equal_nodes_the_first_by_id_is_taken_whatever_the_order_they_come_in():
    nodes = [node("c"), node("a"), node("b")]
    for order in (nodes, nodes[::-1]):
        assert placed(wanted(), room(*order)).seats[0].node == "a"


@pytest.mark.parametrize(
    ("fields", "rule", "words"),
    [
        ({"liveness": None}, "state", "n: has not reported since the control plane started"),
        ({"liveness": "unreachable"}, "state", "n: is unreachable; nothing new is placed there"),
        ({"liveness": "lost"}, "state", "n: is lost; nothing new is placed there"),
        ({"wish": "cordoned"}, "wish", f"n: is cordoned ({TAKEN_BACK})"),
        ({"wish": "draining"}, "wish", f"n: is draining ({TAKEN_BACK})"),
        (
            {"wish": "cordoned", "liveness": "lost"},
            "wish",
            f"n: is cordoned ({TAKEN_BACK}), is lost; nothing new is placed there",
        ),
    ],
)
def test_a_node_that_is_not_ready_or_taken_out_is_turned_away(fields, rule: str, words: str):
    """Time helps, or a person: that it is taken out is nothing that lasts for ever."""
    verdict = turned_away(wanted(), room(node("n", **fields)))
    assert (verdict.kind, verdict.rule, verdict.words) == (NOT_NOW, rule, words)
    assert passes(verdict) == (rule == "state")


@pytest.mark.parametrize(
    ("memory_gb", "booked_gb", "kind", "words"),
    [
        (8, 0, NEVER, "gpu-03: 8 GB of memory, needs 24"),
        (7.6, 0, NEVER, "gpu-03: 7.6 GB of memory, needs 24"),
        (
            64,
            44.5,
            NOT_UNLESS_EVICTED,
            "gpu-03: 19.5 of 64 GB of memory free, needs 24: 44.5 GB held by x",
        ),
    ],
)
def test_memory_is_refused_with_what_there_is_and_what_is_needed(
    memory_gb: float, booked_gb: float, kind: str, words: str
):
    there = room(
        node("gpu-03", memory_gb=memory_gb), gpu_03=(held("x", memory=int(booked_gb * 1e9)),)
    )
    verdict = turned_away(wanted(min_memory_gb=24), there)
    assert (verdict.kind, verdict.rule, verdict.words) == (kind, "memory", words)


def test_a_replica_on_a_gpu_asks_for_host_memory_and_reserves_none():
    there = room(node("n", memory_gb=30, devices=2))
    for number in (1, 2):
        asked = wanted(f"m{number}", gpus=1, min_memory_gb=24)
        book(f"r{number}", asked, placed(asked, there), there)
    assert there.spaces["n"].memory == 0


def test_cores_are_reserved_out_of_the_nodes():
    there = room(node("n", cpus=8))
    first = wanted("m1", cpu_cores=6)
    book("r1", first, placed(first, there), there)
    verdict = turned_away(wanted("m2", cpu_cores=6), there)
    assert (verdict.kind, verdict.words) == (
        NOT_UNLESS_EVICTED,
        "n: 2 of 8 CPU cores free, needs 6: 6 cores held by r1",
    )
    assert turned_away(wanted(cpu_cores=9), there).words == "n: 8 CPU cores, needs 9"


def test_who_holds_what_is_missing_is_named_the_largest_first():
    sizes = {f"r{number:02}": (number % 5 + 1) * GB for number in range(20)}
    bookings = tuple(held(name, memory=size, cores=1) for name, size in sizes.items())
    there = room(node("n", memory_gb=64, cpus=24), n=bookings)
    there.spaces["n"].leaving.add("r09")
    memory = turned_away(wanted(min_memory_gb=10), there)
    assert memory.words == (
        "n: 4 of 64 GB of memory free, needs 10: 5 GB held by r04; "
        "5 GB held by r09, which is stopping; 5 GB held by r14 and 14 more"
    )
    assert memory.kind == NOT_UNLESS_EVICTED
    assert len(memory.reasons) == 17
    assert memory.reasons[-1] == "4 GB held by 4 others"
    cores = turned_away(wanted(cpu_cores=6), there)
    assert cores.words.startswith("n: 4 of 24 CPU cores free, needs 6: 1 core held by r00; ")


def test_memory_of_a_device_names_the_processes_that_have_it():
    xorg = ForeignProcess(pid=7, kind="graphics", command="Xorg", memory_bytes=5 * GB)
    reading = DeviceSample(uuid="GPU-n-0", memory_used_bytes=5 * GB, foreign=(xorg,))
    one = NodeRoom(node=node("n", devices=1), readings=(reading,))
    asked = replace(wanted(gpus=1), device_memory_bytes=78 * GB)
    verdict = turned_away(asked, Room(Observed(nodes=(one,), replicas=())))
    assert verdict.words.endswith("75 of 80 GB of memory free, needs 78 (held by Xorg (pid 7))")


@pytest.mark.parametrize(
    ("there", "asks", "rule"),
    [
        ({"liveness": "lost"}, {"gpus": 1}, "devices"),
        ({"liveness": "unreachable"}, {"min_memory_gb": 500}, "memory"),
        ({"liveness": None}, {"node_selector": {"zone": "b"}}, "labels"),
        ({"liveness": "lost", "wish": "draining"}, {"gpus": 1}, "devices"),
        ({"wish": "cordoned"}, {"gpus": 1}, "devices"),
    ],
)
def test_waiting_for_a_node_helps_nothing_where_it_could_never_take_the_replica(
    there, asks, rule: str
):
    verdict = turned_away(wanted(**asks), room(node("n", **there)))
    assert (verdict.kind, verdict.rule) == (NEVER, rule)


def test_leaving_helps_nothing_where_something_else_is_never_there():
    there = room(node("n", memory_gb=8, devices=1), n=(held("x", "GPU-n-0"),))
    verdict = turned_away(wanted(gpus=1, min_memory_gb=24), there)
    assert (verdict.kind, verdict.rule) == (NEVER, "memory")
    assert turned_away(wanted(gpus=1), there).kind == NOT_UNLESS_EVICTED


def test_a_node_that_says_neither_memory_nor_cores_is_usable():
    there = room(node("n", memory_gb=None, cpus=None))
    assert placed(wanted(min_memory_gb=500, cpu_cores=500), there).scores["memory"] == 0


def test_unknown_use_counts_as_all_there_is_and_says_so():
    stray = Booking(replica="stray-1", rank=0)
    there = room(node("n", devices=2), n=(stray,))
    memory = turned_away(wanted(min_memory_gb=1), there)
    assert memory.words == "n: what stray-1 uses of 64 GB of memory is not known and counts as all"
    cores = turned_away(wanted(cpu_cores=1), there)
    assert cores.words == "n: what stray-1 uses of 16 CPU cores is not known and counts as all"
    devices = turned_away(wanted(gpus=1), there)
    assert "counted as held by stray-1, of which nothing is known" in devices.words
    assert {memory.kind, cores.kind, devices.kind} == {NOT_NOW}
    assert placed(wanted(), there).scores["memory"] == 0


def test_two_alike_requests_of_different_models_do_not_get_one_device_twice():
    there = room(node("n", devices=1))
    first, second = wanted("m1", gpus=1), wanted("m2", gpus=1)
    book("r1", first, placed(first, there), there)
    verdict = turned_away(second, there)
    assert verdict.words == "n: 0 of 1 GPU free, needs 1: gpu0 held by r1"


def test_a_replica_that_no_booking_names_yet_holds_what_it_was_given():
    shard = ReplicaShard(rank=0, node="n", state="starting", devices=("GPU-n-0",))
    coming = Replica(id="r1", model="m", state="starting", shards=(shard,))
    there = Room(Observed(nodes=(NodeRoom(node=node("n", devices=1)),), replicas=(coming,)))
    assert "held by r1" in turned_away(wanted(gpus=1), there).words


@pytest.mark.parametrize(
    ("device", "kind", "words"),
    [
        (gpu("n", 0, unhealthy=("xid 79",)), NEVER, "gpu0 unhealthy: xid 79"),
        (gpu("n", 0, mig_enabled=True), NEVER, "gpu0 in MIG mode, not given out whole"),
    ],
)
def test_a_device_that_is_not_fit_is_refused_in_words(device: Device, kind: str, words: str):
    verdict = turned_away(wanted(gpus=1), room(node("n", devices=(device,))))
    assert (verdict.kind, verdict.words) == (kind, f"n: 0 of 1 GPU free, needs 1: {words}")


def test_a_device_whose_health_is_not_known_is_given_out():
    unknown = msgspec.structs.replace(gpu("n", 0), unhealthy=None, mig_enabled=None)
    assert placed(wanted(gpus=1), room(node("n", devices=(unknown,)))).seats[0].devices


def test_a_device_that_a_stranger_uses_waits_until_it_is_free():
    there = NodeRoom(
        node=node("n", devices=1),
        readings=(
            DeviceSample(uuid="GPU-n-0", foreign=(ForeignProcess(pid=7, command="python"),)),
        ),
    )
    verdict = turned_away(wanted(gpus=1), Room(Observed(nodes=(there,), replicas=())))
    assert verdict.kind == NOT_NOW
    assert verdict.words.endswith("gpu0 used by python (pid 7), not llmgw's")


def used_by(*kinds: str | None) -> Room:
    strangers = tuple(ForeignProcess(pid=7 + n, kind=kind) for n, kind in enumerate(kinds))
    sample = DeviceSample(uuid="GPU-n-0", foreign=strangers)
    there = NodeRoom(node=node("n", devices=1), readings=(sample,))
    return Room(Observed(nodes=(there,), replicas=()))


def test_a_device_that_strangers_only_draw_on_is_given_out():
    assert placed(wanted(gpus=1), used_by("graphics", "graphics")).seats[0].devices


@pytest.mark.parametrize("kind", ["compute", "both", None, "unknown(9)"])
def test_a_stranger_who_may_compute_keeps_a_device_also_beside_one_who_draws(kind):
    words = turned_away(wanted(gpus=1), used_by("graphics", kind)).words
    assert words.endswith("gpu0 used by a process (pid 8), not llmgw's")


def test_devices_of_a_replica_that_is_stopping_are_waited_for():
    there = room(node("n", devices=1), n=(held("old", "GPU-n-0"),))
    there.leaving.add("old")
    verdict = turned_away(wanted(gpus=1), there)
    assert (verdict.kind, verdict.words) == (
        NOT_NOW,
        "n: 0 of 1 GPU free, needs 1: gpu0 held by old, which is stopping",
    )


def test_a_class_that_is_not_there_is_refused_with_what_is():
    cards = (*(gpu("n", k) for k in range(2)), gpu("n", 2, "a100-80g"))
    verdict = turned_away(
        wanted(gpus=1, device_classes=("l4-24g", "t4-16g")), room(node("n", devices=cards))
    )
    assert verdict.words == "n: no l4-24g or t4-16g, needs 1 (has 1 a100-80g, 2 h100-80g)"
    short = turned_away(wanted(gpus=4, device_classes=(H100,)), room(node("n", devices=cards)))
    assert (short.kind, short.words) == (NEVER, "n: 2 h100-80g, needs 4")


def test_classes_are_taken_in_the_order_the_profile_names_them_and_never_mixed():
    cards = (gpu("n", 0, "a100-80g"), gpu("n", 1, "a100-80g"), gpu("n", 2), gpu("n", 3))
    there = room(node("n", devices=cards))
    asked = wanted(gpus=2, device_classes=(H100, "a100-80g"))
    assert placed(asked, there).seats[0].devices == ("GPU-n-2", "GPU-n-3")
    assert isinstance(place(wanted(gpus=3), there), Refusal)


def test_without_a_class_whole_cards_come_first_and_the_smaller_block():
    cards = (mig("n", 0, 1), gpu("n", 1), gpu("n", 2), gpu("n", 3, "a100-80g"))
    there = room(node("n", devices=cards))
    assert placed(wanted(gpus=1), there).seats[0].devices == ("GPU-n-3",)
    only_mig = room(node("n", devices=(mig("n", 0, 1),)))
    assert placed(wanted(gpus=1), only_mig).seats[0].devices == ("MIG-n-0-1",)
    assert isinstance(place(wanted(gpus=2), only_mig), Refusal)


def test_a_card_and_its_instances_are_never_given_out_together():
    card = gpu("n", 0, "a100-80g")
    devices = (card, mig("n", 0, 0), mig("n", 0, 1))
    slice_ = wanted("s", gpus=1, device_classes=("a100-80g-mig-3g.40gb",))
    whole = wanted("w", gpus=1, device_classes=("a100-80g",))
    there = room(node("n", devices=devices), n=(held("x", "MIG-n-0-0"),))
    assert "gpu0 held by x" in turned_away(whole, there).words
    assert placed(slice_, there).seats[0].devices == ("MIG-n-0-1",)
    there = room(node("n", devices=devices), n=(held("x", card.uuid),))
    assert "gpu0/mig0, gpu0/mig1 held by x" in turned_away(slice_, there).words


def test_a_card_that_is_cut_up_is_counted_as_its_instances():
    card = gpu("n", 0, "a100-80g", mig_enabled=True)
    there = room(node("n", devices=(card, mig("n", 0, 0), mig("n", 0, 1))))
    for instance in (0, 1):
        book("x", wanted("x", gpus=1), placed(wanted("x", gpus=1), there), there)
        assert f"MIG-n-0-{instance}" in there.spaces["n"].holders()
    verdict = turned_away(wanted(gpus=1), there)
    assert verdict.words.startswith("n: 0 of 2 GPUs free, needs 1: gpu0/mig0, gpu0/mig1 held by x")
    other = turned_away(wanted(gpus=1, device_classes=("l4-24g",)), there)
    assert other.words == "n: no l4-24g, needs 1 (has 2 a100-80g-mig-3g.40gb)"
    whole = turned_away(wanted(gpus=1, device_classes=("a100-80g",)), there)
    assert whole.words.endswith("gpu0 in MIG mode, not given out whole")


def test_nvlink_peers_are_taken_together_then_one_numa_node():
    def card(number: int, peers: tuple[int, ...] | None, numa: int | None = None) -> Device:
        known = None if peers is None else tuple(f"GPU-n-{peer}" for peer in peers)
        return gpu("n", number, nvlink_peers=known, numa_node=numa)

    linked = [card(0, (3,)), card(1, (2,)), card(2, (1,)), card(3, (0,))]
    assert [d.number for d in together(linked[:3], 2)] == [1, 2]
    numa = [card(0, None, 0), card(1, None, 1), card(2, None, 1), card(3, None, 0)]
    assert [d.number for d in together(numa[1:], 2)] == [1, 2]
    assert [d.number for d in together([card(n, None) for n in range(4)], 2)] == [0, 1]


def test_the_second_replica_goes_to_another_node_even_when_the_first_holds_the_weights():
    source = HubSource(repository="org/model")
    weights = (WeightsHeld(name=cache_name(source)),)
    there = room(node("a"), node("b", inventory={"weights": weights}))
    asked = wanted(engine="llamacpp", source=source)
    first = placed(asked, there)
    assert (first.seats[0].node, first.scores["weights"]) == ("b", 100)
    book("r1", asked, first, there)
    assert placed(asked, there).seats[0].node == "a"


def test_weights_at_a_path_and_incomplete_ones():
    at_path = PathSource(path="/models/x.gguf")
    asked = wanted(engine="llamacpp", source=at_path, disk_gb=100)
    full = (Filesystem(mount="/", free_bytes=10**9),)
    there = (WeightsHeld(name="/models/x.gguf"),)
    half = (WeightsHeld(name="/models/x.gguf", complete=False),)
    assert placed(asked, room(node("n", inventory={"weights": there, "filesystems": full}))).seats
    refused = turned_away(asked, room(node("n", inventory={"weights": half, "filesystems": full})))
    assert (refused.rule, refused.words) == ("disk", "n: 1 GB of disk free, needs 100")


def test_two_models_of_one_shape_share_no_verdict_about_weights():
    one, two = HubSource(repository="org/one"), HubSource(repository="org/two")
    full = (Filesystem(mount="/", free_bytes=10**9),)
    weights = (WeightsHeld(name=cache_name(one)),)
    there = room(node("n", inventory={"weights": weights, "filesystems": full}))
    assert placed(wanted("m1", engine="llamacpp", source=one, disk_gb=5), there).seats
    assert turned_away(wanted("m2", engine="llamacpp", source=two, disk_gb=5), there).rule == "disk"
    assert placed(wanted("m1", engine="llamacpp", source=one, disk_gb=5), there).seats


def test_the_filesystem_of_the_weights_directory_counts_when_it_is_named():
    disks = (
        Filesystem(mount="/", free_bytes=10**12, directories=("/var/lib/llmgw",)),
        Filesystem(mount="/w", free_bytes=10**9, directories=("/var/lib/llmgw-weights",)),
    )
    asked = wanted(engine="llamacpp", source=HubSource(repository="a/b"), disk_gb=50)
    assert turned_away(asked, room(node("n", inventory={"filesystems": disks}))).rule == "disk"
    unknown = (Filesystem(mount="/"),)
    assert placed(asked, room(node("n", inventory={"filesystems": unknown}))).seats


@pytest.mark.parametrize("version", [None, "0.9"])
def test_an_engine_whose_version_is_not_known_is_left_to_its_node(version: str | None):
    own = InstalledEngine(engine="llamacpp", state="installed", by_operator=True)
    asked = wanted(engine="llamacpp", engine_version=version)
    assert placed(asked, room(node("n", engines=(own,)))).seats


def test_an_engine_that_the_node_cannot_install_is_not_waited_for():
    there = node("n", engines=(), inventory={"can_install": ("vllm",)})
    ordered = turned_away(wanted(engine="llamacpp", ordered=("llamacpp",)), room(there))
    assert (ordered.kind, ordered.words) == (NEVER, "n: llamacpp is not installed")
    coming = turned_away(wanted(engine="vllm", ordered=("vllm",)), room(there))
    assert (coming.kind, coming.words) == (NOT_NOW, "n: has not begun to install vllm yet")


def test_a_card_free_node_is_preferred_for_the_cpu_and_the_fuller_one_for_a_gpu():
    there = room(node("a", devices=8), node("b", devices=2), node("c"))
    assert placed(wanted(), there).seats[0].node == "c"
    assert placed(wanted(gpus=1), there).seats[0].node == "b"


def test_many_nodes_that_know_a_model_are_ranked_like_few():
    source = HubSource(repository="org/model")
    weights = (WeightsHeld(name=cache_name(source)),)
    nodes = [node(f"n{k:02}", inventory={"weights": weights}) for k in range(40)]
    there = room(*nodes, node("a"))
    asked = wanted(engine="llamacpp", source=source)
    taken = []
    for number in range(41):
        answer = placed(asked, there)
        book(f"r{number}", asked, answer, there)
        taken.append(answer.seats[0].node)
    assert taken == [*(one.id for one in nodes), "a"]


def port(guid: str | None, **more) -> Port:
    return Port(adapter="mlx5_0", number=1, state="ACTIVE", master_guid=guid, **more)


def test_a_replica_of_several_nodes_stays_on_one_network_and_takes_the_best_nodes():
    ports = [("a", "0x1"), ("b", "0x2"), ("c", "0x1"), ("d", "0x2")]
    there = room(
        *(node(name, devices=2, inventory={"ports": (port(guid),)}) for name, guid in ports)
    )
    there.spaces["c"].book(held("x", memory=10**10))
    answer = placed(wanted(gpus=2, nodes=2), there)
    assert [seat.node for seat in answer.seats] == ["b", "d"]


@pytest.mark.parametrize(
    ("ports", "words"),
    [
        (None, "n: no data of its network ports yet"),
        ((), "n: no network port of fabric ib"),
        ((port("0x1", fabric="eth"),), "n: no network port of fabric ib"),
        (
            (Port(adapter="mlx5_0", number=1, state="DOWN", fabric="ib"),),
            "n: no active network port of fabric ib: mlx5_0/1 is DOWN",
        ),
        (
            (port(None, fabric="ib"),),
            "n: can't say which network its ports of fabric ib are on; 1 of 2 such nodes fit",
        ),
        (
            (port("0x1", fabric="ib"), port("0x2", fabric="ib")),
            "n: its ports of fabric ib are on 2 networks: InfiniBand 0x1, InfiniBand 0x2",
        ),
        (
            (port("0x1", fabric="ib"), port(None, link_layer="Ethernet", network="10.0.0.0/24")),
            "n: 1 of 2 nodes that fit are on InfiniBand 0x1",
        ),
    ],
)
def test_a_node_without_one_physical_network_is_kept_out_of_a_group(ports, words: str):
    there = room(node("n", devices=1, inventory={"ports": ports}))
    assert turned_away(wanted(gpus=1, nodes=2, fabric="ib"), there).words == words


def test_what_no_node_can_do_is_said_of_each():
    several = turned_away(wanted(nodes=2), room(node("n")))
    assert (several.kind, several.words) == (
        NEVER,
        "n: a replica of several nodes needs GPUs on each",
    )
    mig_class = "a100-80g-mig-3g.40gb"
    slices = turned_away(
        wanted(gpus=1, tensor_parallel=2, device_classes=(mig_class,)), room(node("n"))
    )
    assert slices.rule == "mig"


def narrow(number: int, lanes: int = 4, generation: int = 5) -> Device:
    link = PciLink(max_generation=generation, card_generation=5, lanes=lanes, max_lanes=16)
    return gpu("n", number, pci=link)


def test_a_slow_link_lowers_a_score_and_turns_nothing_away():
    there = room(node("n", devices=(narrow(0),)))
    assert placed(wanted(gpus=1), there).scores["link"] == 25
    assert "link" not in placed(wanted(), there).scores
    older = room(node("n", devices=(narrow(0, 16, 4),)))
    assert placed(wanted(gpus=1), older).scores["link"] == 50
    unknown = room(node("n", devices=(gpu("n", 0, pci=PciLink(lanes=4)),)))
    assert "link" not in placed(wanted(gpus=1), unknown).scores


def test_of_two_nodes_the_one_with_whole_links_comes_first():
    slow = node("a", devices=(msgspec.structs.replace(narrow(0), uuid="GPU-a-0"),))
    there = room(slow, node("b", devices=1))
    assert placed(wanted(gpus=1), there).seats[0].node == "b"


def test_cards_with_slow_links_are_given_out_last_and_named_by_number():
    there = room(node("n", devices=(narrow(0), narrow(1, 16), narrow(2, 8))))
    assert placed(wanted(gpus=1), there).seats[0].devices == ("GPU-n-1",)
    assert placed(wanted(gpus=2), there).seats[0].devices == ("GPU-n-1", "GPU-n-2")
    assert placed(wanted(gpus=3), there).seats[0].devices == ("GPU-n-0", "GPU-n-1", "GPU-n-2")
