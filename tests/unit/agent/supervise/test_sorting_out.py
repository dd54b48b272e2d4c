"""Which of the processes that a starting agent finds are its shards: a decision on values alone."""

import dataclasses
from typing import Any

import pytest

from llmgw.base.world import ProcessSeen
from llmgw_agent.supervise.adoption import sort_out
from llmgw_agent.supervise.book import Entry, Kept, KeptProcess
from tests.fakes.node import STATE, shard_spec

ARGV = ("llama-server", "--port", "7500")
SPEC = shard_spec()
ENVIRON = {"LLMGW_STATE": str(STATE), "LLMGW_SHARD": f"c/n1/{SPEC.replica}/{SPEC.rank}"}
ENGINE = ProcessSeen(pid=50, started=7, group=50, argv=ARGV, environ=ENVIRON)
OWN_GROUP = 9


def entry(process: KeptProcess | None) -> Entry:
    kept = Kept(spec=SPEC, state="ready", since=1.0, argv=ARGV, process=process)
    return Entry(directory=f"{SPEC.replica}.{SPEC.rank}", kept=kept, key=None)


RECORDED = entry(KeptProcess(pid=50, started=7, argv=ARGV))


def test_pid_start_time_and_command_line_together_are_the_engine() -> None:
    found = sort_out([RECORDED], [ENGINE], own_group=OWN_GROUP)
    assert [one.process.pid for one in found.adopted] == [50]
    assert (found.gone, found.undescribed) == ((), ())


@pytest.mark.parametrize(
    "changed", [{"pid": 51, "group": 51}, {"started": 8}, {"argv": ("llama-server",)}]
)
def test_without_one_of_them_it_is_gone_and_what_is_there_is_ended(
    changed: dict[str, Any],
) -> None:
    other = dataclasses.replace(ENGINE, **changed)
    found = sort_out([RECORDED], [other], own_group=OWN_GROUP)
    assert found.adopted == ()
    assert [kept.spec for kept in found.gone] == [SPEC]
    assert [one.leader for one in found.undescribed] == [other]


def test_an_agent_never_ends_its_own_group() -> None:
    own = dataclasses.replace(ENGINE, pid=10, group=OWN_GROUP)
    found = sort_out([], [own], own_group=OWN_GROUP)
    assert found.undescribed == ()


def test_an_engine_whose_pid_was_not_written_yet_is_known_by_its_name_and_command_line() -> None:
    found = sort_out([entry(None)], [ENGINE], own_group=OWN_GROUP)
    assert [one.process for one in found.adopted] == [KeptProcess(pid=50, started=7, argv=ARGV)]
    child = dataclasses.replace(ENGINE, pid=51)
    found = sort_out([entry(None)], [child], own_group=OWN_GROUP)
    assert found.adopted == ()
