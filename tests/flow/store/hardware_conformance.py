"""What every store must do with what happened to hardware."""

import pytest

from llmgw.model.hardware import MASTER, PORT, HardwareChange
from llmgw.store.interface import Store
from llmgw.store.rules.bounds import HARDWARE, SUBJECTS
from tests.flow.store import samples
from tests.flow.store.conformance import Place

DAY = 86_400.0


def change(
    number: int,
    node: str = "gpu-01",
    *,
    kind: str = PORT,
    subject: str = "mlx5_0/1",
    at: float | None = None,
    total: int = 0,
) -> HardwareChange:
    when = float(number) if at is None else at
    return HardwareChange(
        id=f"{number:017d}",
        at=when,
        until=when,
        node=node,
        kind=kind,
        subject=subject,
        before="ACTIVE",
        after="DOWN",
        times=1,
        total=total,
        reading=7,
        words=f"port {subject}: ACTIVE → DOWN",
    )


class HardwareConformance:
    async def test_changes_are_read_back_as_they_were_oldest_first(self, store: Store):
        assert await store.hardware(since=0.0, node=None) == ()
        await store.put_hardware((change(2, "gpu-02"), change(1)), before=0.0)
        await store.put_hardware((change(3),), before=0.0)
        every = (change(1), change(2, "gpu-02"), change(3))
        assert await store.hardware(since=0.0, node=None) == every
        assert await store.hardware(since=0.0, node="gpu-01") == (change(1), change(3))
        assert await store.hardware(since=2.0, node=None) == every[1:]
        assert await store.hardware(since=0.0, node="gpu-09") == ()

    async def test_a_change_that_goes_on_replaces_itself(self, store: Store):
        await store.put_hardware((change(1), change(2)), before=0.0)
        longer = change(1, at=9.0, total=5)
        await store.put_hardware((longer,), before=0.0)
        assert await store.hardware(since=0.0, node=None) == (longer, change(2))
        assert await store.hardware(since=3.0, node=None) == (longer,)

    async def test_the_last_of_each_subject_is_kept_however_old(self, store: Store):
        old = (
            change(1),
            change(2, total=2),
            change(3, kind=MASTER),
            change(4, subject="mlx5_1/1"),
            change(5, "gpu-02"),
        )
        await store.put_hardware(old, before=0.0)
        await store.put_hardware((change(6, at=2 * DAY, total=3),), before=DAY)
        kept = (
            change(3, kind=MASTER),
            change(4, subject="mlx5_1/1"),
            change(6, at=2 * DAY, total=3),
        )
        assert await store.hardware(since=0.0, node="gpu-01") == kept
        last = await store.hardware_last()
        assert sorted(last, key=lambda one: one.id) == [*kept[:2], change(5, "gpu-02"), kept[2]]

    async def test_a_removed_node_leaves_nothing_and_others_stay(self, store: Store):
        await store.put_node(samples.node())
        await store.put_hardware((change(1), change(2, "gpu-02")), before=0.0)
        await store.remove_node("gpu-01", actor="ana", at=9.0)
        assert await store.hardware(since=0.0, node=None) == (change(2, "gpu-02"),)
        assert await store.hardware_last() == (change(2, "gpu-02"),)

    @pytest.mark.parametrize("node", ["gpu '1\"; DROP TABLE hardware", "gé\n"])
    async def test_any_name_is_kept_as_it_is(self, store: Store, node: str):
        await store.put_hardware((change(1, node, subject=node),), before=0.0)
        assert await store.hardware(since=0.0, node=node) == (change(1, node, subject=node),)

    async def test_changes_outlive_the_store(self, place: Place):
        first = place.store()
        await first.open("a")
        await first.put_hardware((change(1),), before=0.0)
        await first.close()
        again = place.store()
        await again.open("b")
        assert await again.hardware(since=0.0, node=None) == (change(1),)
        await again.close()

    async def test_it_is_bounded_for_each_node(self, store: Store):
        many = [change(number, kind=MASTER) for number in range(HARDWARE + 20)]
        await store.put_hardware([change(90_000, "gpu-02"), *many], before=0.0)
        found = await store.hardware(since=0.0, node="gpu-01")
        assert [one.id for one in found] == [one.id for one in many[20:]]
        assert len(await store.hardware(since=0.0, node="gpu-02")) == 1
        subjects = [change(10_000 + n, subject=f"mlx5_{n}/1") for n in range(SUBJECTS + 10)]
        await store.put_hardware(subjects, before=0.0)
        kept = await store.hardware(since=0.0, node="gpu-01")
        assert [one.id for one in kept] == [one.id for one in subjects[10:]]
