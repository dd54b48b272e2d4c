"""What is wrong with a node, one cause once."""

from llmgw.model.device import Device, DeviceHealth, DeviceSample, Xid
from llmgw.model.node import Heartbeat, Inventory, Node, NodeWarning, ProbeState
from llmgw.model.trouble import health_of, short, troubles

CARDS = tuple(Device(uuid=f"GPU-{number}", number=number) for number in range(8))


def said(node: Node, **beat: object) -> tuple[str, ...]:
    heartbeat = Heartbeat(sequence=1, **beat)  # type: ignore[arg-type]
    return troubles(node, heartbeat, now=100.0, ages=lambda seconds: f"{seconds:.0f}s")


def node(*devices: Device, liveness: str = "ready", **more: object) -> Node:
    inventory = Inventory(devices=devices or CARDS)
    return Node(id="n", liveness=liveness, inventory=inventory, **more)  # type: ignore[arg-type]


def test_uncorrected_errors_of_readings_and_of_reports_are_troubles() -> None:
    assert said(node(), devices=(DeviceSample(uuid="GPU-1", ecc_uncorrected=2),)) == (
        "gpu1: ECC errors: - corrected, 2 uncorrected since the driver was loaded",
    )
    assert said(node(), health=(DeviceHealth(uuid="GPU-1", ecc_uncorrected_volatile=2),)) == (
        "gpu1: ECC errors: - corrected, 2 uncorrected since the driver was loaded",
    )
    assert said(node(), devices=(DeviceSample(uuid="GPU-1", ecc_uncorrected=0),)) == ()


def test_throttling_by_heat_or_power_brake_is_a_trouble_and_a_power_cap_is_none() -> None:
    def slowed(*reasons: str) -> tuple[str, ...]:
        return said(
            node(),
            devices=tuple(DeviceSample(uuid=one.uuid, throttle_reasons=reasons) for one in CARDS),
        )

    assert slowed("power brake") == ("gpu0-gpu7: slowed down: power brake",)
    assert slowed("heat (hardware)") == ("gpu0-gpu7: slowed down: heat (hardware)",)
    assert slowed("power cap") == ()


def test_probes_that_fail_alike_are_one_trouble() -> None:
    probes = (
        ProbeState(name="gpus", error="no answer", failing=90.0),
        ProbeState(name="health", error="no answer", failing=60.0),
        ProbeState(name="disks", age=1.0),
    )
    assert said(node(), probes=probes) == ("probes gpus, health fail for 90s: no answer",)


def test_a_driver_error_that_a_device_is_out_of_order_for_is_said_once() -> None:
    sick = Device(uuid="GPU-0", number=0, unhealthy=("XID 79: reboot the machine",))
    xids = tuple(Xid(code=code, count=1, action="reboot") for code in (79, 7))
    found = said(
        node(sick, health=("gpu0: XID 79: reboot the machine",)),
        health=(DeviceHealth(uuid="GPU-0", xids=xids),),
    )
    assert found == (
        "gpu0: XID 79: reboot the machine",
        "gpu0: XID 7 once; reboot the machine",
    )


def test_what_a_lost_node_said_of_its_readings_is_no_trouble_of_now() -> None:
    reading = DeviceSample(uuid="GPU-1", ecc_uncorrected=2)
    assert said(node(liveness="lost", health=("old",)), devices=(reading,)) == ("old",)


def test_a_warning_that_devices_name_is_not_said_again() -> None:
    sick = Device(uuid="GPU-0", number=0, unhealthy=("no answer",))
    warnings = (
        NodeWarning(subject="gpu", words="no answer"),
        NodeWarning(subject="host", words="no AVX2"),
    )
    told = Node(
        id="n", health=("gpu0: no answer",), inventory=Inventory(devices=(sick,), warnings=warnings)
    )
    assert health_of(told) == ("gpu0: no answer", "host: no AVX2")


def test_many_reasons_are_the_first_and_their_number() -> None:
    assert short((), 20) == ""
    assert short(("hot",), 20) == "hot"
    assert short(("hot", "old", "slow"), 20) == "hot and 2 more"
    assert short(("a" * 30,), 20) == "a" * 19 + "…"


def test_a_certificate_is_late_by_its_own_life() -> None:
    def told(left: float, lives: float) -> bool:
        ends = 100.0 + left
        node = Node(id="n", certificate_begins=ends - lives, certificate_ends=ends)
        return troubles(node, None, now=100.0, ages=lambda seconds: f"{seconds:.0f}s") != ()

    assert not told(86_400.0, lives=86_400.0), "of one day, and new"
    assert told(5 * 3600.0, lives=86_400.0)
    assert told(7 * 86_400.0, lives=30 * 86_400.0)
    assert not told(8 * 86_400.0, lives=30 * 86_400.0)


def test_a_certificate_that_ends_soon_is_a_trouble_also_of_a_node_that_is_not_heard() -> None:
    def told(ends: float, liveness: str = "ready") -> tuple[str, ...]:
        node = Node(id="n", liveness=liveness, certificate_ends=100.0 + ends)
        return troubles(node, None, now=100.0, ages=lambda seconds: f"{seconds:.0f}s")

    assert told(6 * 86_400.0) == ()
    assert told(60.0) == ("its certificate ends in 60s and was not renewed",)
    assert told(-60.0, "lost") == ("its certificate has ended and was not renewed",)
