"""Which subnet managers a node still sees: those of a master that an active port sees."""

from llmgw.fabric.managers import masters, still_seen, unknown_managers
from llmgw.model.fabric import Port, SubnetManager

MASTER = SubnetManager(guid="0xa", state="master", master_guid="0xa")
STANDBY = SubnetManager(guid="0xb", state="standby", master_guid="0xa")
OTHER = SubnetManager(guid="0xc", state="master", master_guid="0xc")
ALL = (MASTER, STANDBY, OTHER)


def port(master: str | None, state: str | None = "ACTIVE") -> Port:
    return Port(adapter="mlx5_0", number=1, state=state, master_guid=master)


def test_one_port_that_sees_the_master_is_enough_for_all_its_managers() -> None:
    assert still_seen(ALL, (port(None), port("0xa"))) == (MASTER, STANDBY)


def test_without_a_port_that_sees_it_a_master_s_managers_are_not_seen() -> None:
    assert still_seen(ALL, ()) == ()
    assert still_seen(ALL, (port(None), port("0xd"))) == ()


def test_a_port_that_is_down_sees_nothing_whatever_it_says() -> None:
    assert masters((port("0xa", "DOWN"), port("0xb", "INIT"), port("0xc", "Active"))) == {"0xc"}
    assert masters((port("0xa", None),)) == {"0xa"}


def test_a_manager_of_no_known_master_is_not_seen() -> None:
    assert still_seen((SubnetManager(guid="0xa"),), (port("0xa"),)) == ()


def on_fabric(number: int, master: str | None, **more: object) -> Port:
    known = {"state": "ACTIVE", "link_layer": "InfiniBand", "lid": 7} | more
    return Port(adapter="mlx5_0", number=number, master_guid=master, **known)  # type: ignore[arg-type]


def test_managers_that_nobody_tells_of_are_said_to_be_unknown_with_the_reason() -> None:
    ports = (on_fabric(1, "0xa"), on_fabric(2, "0xa"), on_fabric(3, None))
    assert unknown_managers((), ports) == (
        "master 0xa, others not known: no subnet administrator answers saquery",
        "none known of mlx5_0/3: no master answers sminfo",
    )
    assert unknown_managers(None, ports[2:]) == (
        "not known of mlx5_0/3: sminfo was not run yet, or is not installed",
    )


def test_of_managers_that_are_listed_and_of_ports_without_any_nothing_is_said() -> None:
    assert unknown_managers(ALL, (on_fabric(1, "0xa"), on_fabric(2, "0xc"))) == ()
    others = (
        on_fabric(1, None, state="INIT"),
        on_fabric(2, None, link_layer="Ethernet"),
        on_fabric(3, None, lid=None),
        on_fabric(4, None, state=None),
    )
    assert unknown_managers(None, others) == ()
