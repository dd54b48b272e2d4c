"""An engine is brought, proven to run, and only then marked installed."""

import asyncio
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from llmgw.base.clock import SystemClock
from llmgw.base.errors import LlmgwError, NotFound, Refused, TimedOut, Unreachable
from llmgw.base.system import SystemFiles, SystemProcesses
from llmgw.base.world import DiskSpace
from llmgw.model.catalog import PackageRef
from llmgw.model.settings import XLLAMACPP, EngineBuild
from llmgw.model.shard import Progress
from llmgw_agent.engines import proof
from llmgw_agent.engines.install import Installer, directory_of, installed_directories
from llmgw_agent.engines.install_side import Install, Look, bring, look
from llmgw_agent.engines.proof import LAUNCHER, Unfit
from llmgw_agent.host.machine import Machine
from llmgw_agent.host.package_index import PackageIndex
from tests.fakes.file_server import FileServer, serving

RUNS = b"#!/bin/sh\necho 'version: 7 (build 1)' >&2\necho $LD_LIBRARY_PATH > $0.libraries\n"
FOR_AMX = b"""#!/bin/sh
case "$1" in
--version) echo "version: 7 (build 1)" >&2;;
*) echo "system_info: n_threads = 2 / 2 | CPU : AVX2 = 1 | AMX_INT8 = 1 | LLAMAFILE = 1 | " >&2
   exit 1;;
esac
"""
ILLEGAL = b"#!/bin/sh\nkill -ILL $$\n"
FAILS = b"#!/bin/sh\necho 'illegal instruction' >&2\nexit 132\n"
HANGS = b"#!/bin/sh\nexec sleep 3600\n"
PROGRAM = "tiny_engine/bin/llama-server"
OLD = Machine(architecture="x86_64", glibc="2.36", flags=frozenset({"avx", "avx2", "fma"}))
NEW = Machine(architecture="x86_64", glibc="2.36", flags=frozenset({"avx2", "amx_int8"}))


class Node:
    """An installer of this machine, whose index is on loopback."""

    def __init__(self, index: FileServer, root: Path) -> None:
        self.index = index
        self.root = root
        self.files = SystemFiles()
        self.machine = OLD
        self.told: list[Progress] = []

    def build(self, program: bytes = RUNS, version: str = "1.0", **files: bytes) -> EngineBuild:
        content = {PROGRAM: program, "tiny_engine/bin/libggml-cpu.so": b"", **files}
        content["tiny_engine/bin/libggml-base.so"] = b""
        package = self.index.add_wheel(
            "tiny-engine", content, version=version, executable=(PROGRAM,)
        )
        return EngineBuild(
            version=version,
            packages=(package,),
            program=PROGRAM,
            libraries=("tiny_engine/bin",),
        )

    def installer(self) -> Installer:
        environ = self.index.environ()
        processes, clock = SystemProcesses(), SystemClock()
        index = PackageIndex(processes, clock, environ=environ, machine=self.machine)
        return Installer(
            *(self.root, processes, self.files, index, clock),
            machine=self.machine,
            search_path="/usr/bin:/bin",
        )

    async def install(self, build: EngineBuild):
        return await self.installer().install("llamacpp", build, self.told.append)

    async def bring(self, build: EngineBuild):
        request = Install(root=str(self.root), engine="llamacpp", build=build)
        return await bring(self.installer(), request, self.told.append)

    def marked(self) -> list[str]:
        return [path.name for path in installed_directories(self.root)]

    def downloads(self) -> int:
        paths = self.index.paths.items()
        return sum(len(served.asked) for path, served in paths if path.endswith(".whl"))


def read(path: str) -> str:
    return Path(path).read_text().strip()


def replace_program(path: str, program: bytes | None) -> None:
    if program is None:
        Path(path).unlink()
    else:
        Path(path).write_bytes(program)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with serving() as index:
        yield Node(index, tmp_path / "engines")


async def test_an_engine_is_installed_where_its_build_says_and_seen_to_run(node: Node):
    build = node.build()
    found = await node.install(build)
    place = directory_of(node.root, "llamacpp", build)
    assert found.place == str(place)
    assert found.path == str(place / "packages" / PROGRAM)
    assert (found.version, found.said, found.back_ends) == ("1.0", "version: 7 (build 1)", ("cpu",))
    assert read(f"{found.path}.libraries") == found.libraries[0]
    assert node.marked() == [place.name]
    assert node.told[-1].words == "checking llama.cpp 1.0"
    assert sorted(p.name for p in place.parent.iterdir()) == [place.name, f"{place.name}.lock"]


async def test_what_is_installed_is_not_brought_again(node: Node):
    build = node.build()
    await node.install(build)
    await node.install(build)
    assert node.downloads() == 1


async def test_two_agents_of_one_machine_bring_it_once(node: Node):
    build = node.build()
    found = await asyncio.gather(node.install(build), node.install(build))
    assert found[0] == found[1]
    assert node.downloads() == 1


async def test_an_engine_that_does_not_run_is_not_marked_and_not_downloaded_again(node: Node):
    build = node.build(FAILS)
    for _ in range(2):
        with pytest.raises(Refused, match=r"exit status 132: illegal instruction"):
            await node.install(build)
    assert node.marked() == []
    assert node.downloads() == 1


async def test_a_missing_library_is_named_by_ldd(node: Node, monkeypatch):
    build = node.build()
    installer = node.installer()
    said = "\tlibgomp.so.1 => not found\n\tlibc.so.6 => /lib/libc.so.6 (0x1)\n"

    async def run(argv, **more):
        from llmgw.base.world import Done

        assert argv[0] == "ldd"
        return Done(0, said, "")

    monkeypatch.setattr(installer._prover._processes, "run", run)
    with pytest.raises(Refused, match=r"llama-server lacks libgomp\.so\.1"):
        await installer.install("llamacpp", build, node.told.append)
    assert node.marked() == []


async def test_a_machine_without_ldd_believes_the_run(node: Node):
    installer = node.installer()
    installer._prover._search_path = "/nonexistent"
    build = node.build(b"#!/bin/sh\necho version: 7\n")
    assert (await installer.install("llamacpp", build, node.told.append)).said == "version: 7"


async def test_an_engine_that_no_longer_runs_is_replaced(node: Node):
    build = node.build()
    found = await node.install(build)
    replace_program(found.path, FAILS)
    seen = await look(node.installer(), Look(root=str(node.root)))
    assert seen.running == ()
    (broken,) = seen.broken
    assert (broken.place, broken.version, broken.slow) == (found.place, "1.0", False)
    again = await node.install(build)
    assert again.said == "version: 7 (build 1)"
    assert node.downloads() == 2
    assert any("no longer runs" in progress.words for progress in node.told)


async def test_a_program_that_vanished_is_seen_without_running_it(node: Node):
    found = await node.install(node.build())
    replace_program(found.path, None)
    seen = await look(node.installer(), Look(root=str(node.root), run=False))
    assert "no tiny_engine/bin/llama-server in its packages" in seen.broken[0].words


async def test_a_check_that_does_not_end_says_that_it_was_slow(node: Node, monkeypatch):
    build = node.build()
    found = await node.install(build)
    replace_program(found.path, HANGS)
    monkeypatch.setattr(proof, "PROVE_TIMEOUT", 0.3)
    seen = await look(node.installer(), Look(root=str(node.root)))
    assert seen.broken[0].slow
    with pytest.raises(TimedOut):
        await node.install(build)
    assert node.downloads() == 1


async def test_the_disk_is_looked_at_before_anything_is_fetched(node: Node):
    node.files = FullFiles()
    with pytest.raises(Refused, match=r"400 MB free below .*, installing llama.cpp needs 1.0 GB"):
        await node.install(node.build())
    assert node.downloads() == 0


async def test_an_order_can_name_nothing_outside_its_packages(node: Node):
    build = msgspec.structs.replace(node.build(), program="../../../../bin/sh")
    with pytest.raises(Refused, match="leaves its package"):
        await node.install(build)
    build = msgspec.structs.replace(node.build(), program="tiny_engine/bin/other")
    with pytest.raises(Refused, match="no tiny_engine/bin/other in its packages"):
        await node.install(build)
    assert node.marked() == []


async def test_an_operators_own_engine_is_run_where_it_lies(node: Node, tmp_path):
    own = tmp_path / "own-server"
    own.write_bytes(RUNS)
    own.chmod(0o755)
    request = Look(root=str(node.root), own={"llamacpp": str(own), "vllm": "/nonexistent"})
    seen = await look(node.installer(), request)
    (running,) = seen.running
    assert (running.path, running.version, running.by_operator) == (str(own), "7", True)
    (broken,) = seen.broken
    assert "/nonexistent: no such file" in broken.words


async def test_nothing_installed_is_not_found(node: Node, tmp_path):
    with pytest.raises(NotFound):
        await node.installer().prove(tmp_path)
    assert await look(node.installer(), Look(root=str(node.root / "nowhere"))) is not None


async def test_an_order_without_packages_is_refused_in_words(node: Node):
    with pytest.raises(LlmgwError, match="names no packages"):
        await node.install(EngineBuild(version="3.0", program="x"))


class FullFiles(SystemFiles):
    """A disk with little room."""

    def space(self, path: Path) -> DiskSpace | None:
        return DiskSpace(total=10**12, free=4 * 10**8)


async def test_a_build_for_another_processor_is_not_marked_installed_and_leaves_nothing(node: Node):
    words = r"llama\.cpp 1\.0 needs AMX_INT8, which this processor does not have"
    build = node.build(FOR_AMX)
    with pytest.raises(Unfit, match=words):
        await node.install(build)
    assert node.marked() == []
    place = directory_of(node.root, "llamacpp", build)
    assert [path for path in place.parent.iterdir() if path.is_dir()] == []


async def test_a_build_for_another_processor_is_fetched_once(node: Node):
    build = node.build(FOR_AMX)
    for _ in range(3):
        with pytest.raises(Unfit, match="needs AMX_INT8"):
            await node.install(build)
    assert node.downloads() == 1


async def test_a_machine_with_the_processor_installs_it_below_the_same_directory(node: Node):
    build = node.build(FOR_AMX)
    with pytest.raises(Unfit):
        await node.install(build)
    node.machine = NEW
    assert (await node.install(build)).said == "version: 7 (build 1)"


async def test_what_another_machine_can_run_is_left_where_it_is(node: Node):
    build = node.build(FOR_AMX)
    node.machine = NEW
    await node.install(build)
    node.machine = OLD
    with pytest.raises(Unfit, match="needs AMX_INT8"):
        await node.install(build)
    (broken,) = (await look(node.installer(), Look(root=str(node.root)))).broken
    assert "needs AMX_INT8" in broken.words
    assert (len(node.marked()), node.downloads()) == (1, 1)


async def test_a_machine_of_whose_processor_nothing_is_known_believes_the_run(node: Node):
    node.machine = Machine(architecture="x86_64", glibc="2.36")
    assert (await node.install(node.build(FOR_AMX))).said == "version: 7 (build 1)"


async def test_a_build_that_meets_an_illegal_instruction_at_once_is_none_for_this_processor(
    node: Node,
):
    with pytest.raises(Unfit, match=r"llama\.cpp 1\.0 uses instructions .*SIGILL"):
        await node.install(node.build(ILLEGAL))


CARDS = b"""#!/bin/sh
echo "version: 7 [${CUDA_VISIBLE_DEVICES-unset}][${GGML_VK_VISIBLE_DEVICES-unset}]"
"""


async def test_cards_are_hidden_from_an_engine_that_is_only_looked_at(node: Node):
    assert (await node.install(node.build(CARDS))).said == "version: 7 [][]"


async def test_what_shows_that_a_build_is_none_for_this_machine_is_an_answer(node: Node):
    unfit = await node.bring(node.build(FOR_AMX))
    assert (unfit.found, unfit.for_ever) == (None, True)
    assert unfit.words == "llama.cpp 1.0 needs AMX_INT8, which this processor does not have"
    fails = await node.bring(node.build(FAILS, version="2.0"))
    assert (fails.found, fails.for_ever) == (None, False)
    assert "llama.cpp 2.0: llama-server --version ended with exit status 132" in fails.words
    gone = PackageRef(name="gone", version="1.0", sha256="0" * 64)
    none = await node.bring(EngineBuild(version="3.0", packages=(gone,), program="x"))
    assert (none.found, none.for_ever) == (None, False)
    assert "llama.cpp 3.0: " in none.words


async def test_a_new_build_that_does_not_end_does_not_run_here(node: Node, monkeypatch):
    monkeypatch.setattr(proof, "PROVE_TIMEOUT", 0.3)
    brought = await node.bring(node.build(HANGS))
    assert (brought.found, brought.for_ever) == (None, False)


async def test_what_any_build_would_meet_is_raised(node: Node):
    build = node.build()
    node.index.stop()
    with pytest.raises(Unreachable):
        await node.bring(build)


XLLAMACPP_WHEEL = b"""
import importlib.util, sys
__version__ = "7.0"
def get_system_info():
    return "CPU : SSE3 = 1 | "
class CommonParams:
    pass
class Model:
    pass
class Server:
    def __init__(self, parameters):
        print("system_info: CPU :", SAYS, file=sys.stderr)
        for name in ("llmgw", "llmgw_agent", "msgspec"):
            assert importlib.util.find_spec(name) is None, name
        raise RuntimeError("no model " + parameters.model.path)
CommonParams.model = Model()
CommonParams.cpuparams = CommonParams.cpuparams_batch = Model()
"""


def xllamacpp(node: Node, says: str) -> EngineBuild:
    code = XLLAMACPP_WHEEL.replace(b"SAYS", repr(says).encode())
    content = {"xllamacpp/__init__.py": code, "xllamacpp/xllamacpp.abi3.so": b""}
    package = node.index.add_wheel("xllamacpp", content)
    return EngineBuild(
        version="2026.1",
        packages=(package,),
        program="xllamacpp/xllamacpp.abi3.so",
        launcher=XLLAMACPP,
    )


async def test_a_library_is_run_by_the_launcher_and_finds_nothing_of_the_agents(node: Node):
    found = await node.install(xllamacpp(node, "AVX2 = 1 | "))
    packages = Path(found.place) / "packages"
    assert found.start == (sys.executable, *("-I", "-S", "-B"), str(LAUNCHER), str(packages))
    assert found.path == str(packages / "xllamacpp/xllamacpp.abi3.so")
    assert (found.said, found.back_ends) == ("version: 7.0 (xllamacpp)", ("cpu",))
    assert importlib.util.find_spec("xllamacpp") is None
    done = await SystemProcesses().run([*found.start, "-m", "x", "--port", "0"], timeout=30)
    assert (done.rc, "no model x" in done.err) == (1, True), done.err


async def test_a_library_for_another_processor_is_none_for_this_machine(node: Node):
    with pytest.raises(Unfit, match=r"llama\.cpp 2026\.1 needs AMX_INT8"):
        await node.install(xllamacpp(node, "AMX_INT8 = 1 | "))
