"""How many bytes of bodies a worker may hold: what its machine and its control group leave."""

import os
from pathlib import Path

from llmgw.gateway.memory import memory_of_machine
from llmgw.gateway.proxy.bodies import BODIES_MOST, Bodies, share_of

GIB = 1 << 30
PHYSICAL = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def machine(root: Path, group: str, **limits: str) -> Path:
    """Lay out a machine whose process is in a group; limits by group, `/` written as `__`."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(f"0::{group}\n")
    for name, limit in limits.items():
        directory = root / "sys/fs/cgroup" / name.replace("__", "/")
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "memory.max").write_text(f"{limit}\n")
    return root


def test_without_limits_it_is_the_machine_s(tmp_path):
    assert memory_of_machine(tmp_path) == PHYSICAL
    assert memory_of_machine(machine(tmp_path, "/a", a="max")) == PHYSICAL


def test_the_least_limit_of_the_group_and_those_above_it_counts(tmp_path):
    root = machine(tmp_path, "/a/b", a="3000000", a__b="max", a__c="1000")
    assert memory_of_machine(root) == 3_000_000


def test_what_lies_above_the_groups_is_not_followed(tmp_path):
    root = machine(tmp_path, "/../../etc", etc="7")
    assert memory_of_machine(root) == PHYSICAL
    (root / "sys/fs/cgroup/memory.max").write_text("5000000")
    assert memory_of_machine(root) == 5_000_000


def test_the_workers_share_an_eighth_and_one_has_a_gib_at_most():
    assert share_of(16 * GIB, 4) == GIB // 2
    assert share_of(1024 * GIB, 2) == BODIES_MOST
    assert share_of(GIB, 0) == GIB // 8


def test_settings_say_otherwise_until_they_say_nothing_again():
    bodies = Bodies(100)
    assert bodies.take(100, 1)
    bodies.allow(500)
    assert bodies.take(300, 1)
    bodies.allow(None)
    assert not bodies.take(1, 1)
