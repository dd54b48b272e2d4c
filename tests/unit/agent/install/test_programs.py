"""Engines converge to what was ordered, and every state has the node's own words."""

from pathlib import Path

import msgspec
import pytest

from llmgw.base.errors import NotFound, Refused, Unreachable
from llmgw.model.settings import EngineOrder
from llmgw.model.shard import Progress
from llmgw_agent.engines.install import Installation
from llmgw_agent.host.machine import Machine
from tests.fakes.clock import settle
from tests.unit.agent.install.engines import (
    BUILD,
    NEWER,
    ORDER,
    Node,
    broken,
    entry,
    installation,
    running,
)


async def test_before_the_first_look_nothing_is_claimed(node: Node):
    programs = node.programs()
    assert not programs.probed
    with pytest.raises(Refused, match="has not looked"):
        programs.program("llamacpp")


async def test_the_simulated_engine_is_always_there(node: Node):
    programs = node.programs()
    simulated = entry(programs, "simulated")
    assert (simulated.state, simulated.version) == ("installed", "0.1.0")
    assert programs.program("simulated").path == Path("/usr/bin/python3")


async def test_probed_and_nothing_ordered_is_an_empty_node(node: Node):
    programs = node.programs()
    async with running(programs):
        assert programs.probed
        assert [e.engine for e in programs.installed()] == ["simulated"]
        with pytest.raises(NotFound, match="not ordered"):
            programs.program("llamacpp")


async def test_what_is_ordered_is_brought_and_offered(node: Node):
    programs = node.programs()
    programs.order({"llamacpp": ORDER})
    async with running(programs):
        assert node.installs() == 1
        found = entry(programs)
        assert (found.state, found.version, found.back_ends) == (
            "installed",
            "1.0",
            ("cpu", "vulkan"),
        )
        program = programs.program("llamacpp")
        assert program.path.name == "llama-server"
        assert [p.name for p in program.libraries] == ["bin"]
        await node.clock.advance(300)
        assert node.installs() == 1


async def test_while_it_comes_the_refusal_has_the_nodes_own_words(node: Node):
    node.progress = [Progress(words="downloading llama.cpp", done_bytes=16_000_000)]
    programs = node.programs()
    async with running(programs):
        node.held = True
        programs.order({"llamacpp": ORDER})
        await settle()
        found = entry(programs)
        assert (found.state, found.words) == (
            "installing",
            "installing: downloading llama.cpp (16 MB)",
        )
        with pytest.raises(Refused, match=r"installing: downloading llama\.cpp \(16 MB\)"):
            programs.program("llamacpp", "1.0")
        node.helpers[-1].release()
        await settle()
        assert entry(programs).state == "installed"


async def test_a_failed_install_says_why_and_is_tried_again_later_each_time(node: Node):
    node.install = Unreachable("no package index can be reached: Connection refused")
    programs = node.programs()
    programs.order({"llamacpp": ORDER})
    async with running(programs):
        found = entry(programs)
        assert found.state == "failed"
        assert "Connection refused" in (found.words or "")
        await node.clock.advance(75)
        assert node.installs() == 2
        await node.clock.advance(30)
        assert node.installs() == 2
        node.install = None
        await node.clock.advance(120)
        assert entry(programs).state == "installed"


async def test_a_platform_that_does_not_fit_is_said_without_trying(node: Node):
    order = EngineOrder(builds=(msgspec.structs.replace(BUILD, glibc="2.35"),))
    for machine, words in (
        (
            Machine(architecture="aarch64", glibc="2.36"),
            "no build runs here: llama.cpp 1.0 is built for x86_64, this machine is aarch64",
        ),
        (
            Machine(architecture="x86_64", glibc="2.31"),
            "no build runs here: llama.cpp 1.0 needs glibc 2.35, this machine has 2.31",
        ),
    ):
        programs = node.programs(machine=machine)
        programs.order({"llamacpp": order})
        async with running(programs):
            assert (entry(programs).state, entry(programs).words) == ("failed", words)
            assert programs.can_install() == ()
    assert node.installs() == 0
    assert node.programs().can_install() == ("llamacpp",)


async def test_engines_are_looked_at_each_minute_and_run_every_ten(node: Node):
    node.running = [installation()]
    programs = node.programs()
    programs.order({"llamacpp": ORDER})
    async with running(programs):
        assert [look.run for look in node.looks()] == [True]
        await node.clock.advance(9 * 60)
        assert [look.run for look in node.looks()] == [True] + [False] * 9
        await node.clock.advance(60)
        assert node.looks()[-1].run


async def test_an_engine_that_fails_its_check_leaves_the_list_with_its_reason(node: Node):
    node.running = [installation()]
    programs = node.programs()
    async with running(programs):
        assert entry(programs).state == "installed"
        node.running, node.broken = [], [broken(BUILD)]
        await node.clock.advance(600)
        found = entry(programs)
        assert (found.state, found.words) == ("failed", "llama-server lacks libgomp.so.1")
        with pytest.raises(Refused, match="libgomp"):
            programs.program("llamacpp")
        # Seen to be there without being run is no proof that it works again.
        node.running, node.broken = [installation()], []
        await node.clock.advance(60)
        assert entry(programs).state == "failed"
        await node.clock.advance(540)
        assert entry(programs).state == "installed"


async def test_an_install_that_ends_while_a_look_is_under_way_is_not_lost(node: Node):
    programs = node.programs()
    async with running(programs):
        node.held = True
        await node.clock.advance(60)
        look = node.helpers[-1]
        node.held = False
        programs.order({"llamacpp": ORDER})
        await settle()
        assert entry(programs).state == "installed"
        node.running = []
        look.release()
        await settle()
        assert entry(programs).state == "installed"


async def test_an_engine_that_fails_its_check_is_brought_again_when_it_is_ordered(node: Node):
    node.running = [installation()]
    programs = node.programs()
    programs.order({"llamacpp": ORDER})
    async with running(programs):
        assert node.installs() == 0
        node.running, node.broken = [], [broken(BUILD)]
        await node.clock.advance(600)
        await node.clock.advance(15)
        assert "no longer runs: llama-server lacks libgomp.so.1" in node.words
        assert node.installs() == 1
        assert entry(programs).state == "installed"


async def test_a_leftover_that_never_ran_here_is_no_failure_but_has_its_reason(node: Node):
    node.broken = [broken(BUILD)]
    programs = node.programs()
    async with running(programs):
        assert [e.engine for e in programs.installed()] == ["simulated"]
        with pytest.raises(Refused, match="libgomp"):
            programs.program("llamacpp", "1.0")


async def test_a_check_that_does_not_end_in_time_proves_nothing(node: Node):
    node.running = [installation()]
    programs = node.programs()
    async with running(programs):
        node.running, node.broken = [], [broken(BUILD, slow=True)]
        await node.clock.advance(600)
        assert entry(programs).state == "installed"
        assert programs.program("llamacpp").version == "1.0"


async def test_an_operators_own_engine_is_reported_and_never_replaced(node: Node):
    own = Installation(
        engine="llamacpp",
        version="5000",
        place="/opt/llama-server",
        path="/opt/llama-server",
        at=1.0,
        by_operator=True,
    )
    node.running = [own]
    programs = node.programs(own={"llamacpp": "/opt/llama-server"})
    programs.order({"llamacpp": ORDER})
    async with running(programs):
        await node.clock.advance(60)
        assert node.installs() == 0
        found = entry(programs)
        assert (found.by_operator, found.path) == (True, "/opt/llama-server")
        assert programs.program("llamacpp").path == Path("/opt/llama-server")
        with pytest.raises(Refused, match="operator's own 5000"):
            programs.program("llamacpp", "1.0")


async def test_a_newer_order_is_brought_beside_the_older_one(node: Node):
    node.running = [installation()]
    programs = node.programs()
    programs.order({"llamacpp": ORDER})
    async with running(programs):
        programs.order({"llamacpp": EngineOrder(builds=(NEWER,))})
        await settle()
        assert {e.version for e in programs.installed() if e.engine == "llamacpp"} == {"1.0", "2.0"}
        assert programs.program("llamacpp").version == "2.0"
        assert programs.program("llamacpp", "1.0").version == "1.0"
        with pytest.raises(NotFound, match=r"3\.0"):
            programs.program("llamacpp", "3.0")


async def test_a_look_that_fails_keeps_what_was_known(node: Node):
    node.running = [installation()]
    programs = node.programs()
    async with running(programs):
        node.silent = True
        await node.clock.advance(120)
        assert len(node.looks()) == 3
        assert entry(programs).state == "installed"


async def test_every_change_is_told(node: Node):
    programs = node.programs()
    async with running(programs):
        before = node.changes
        programs.order({"llamacpp": ORDER})
        await settle()
        assert node.changes > before
