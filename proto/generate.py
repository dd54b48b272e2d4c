"""Regenerate `llmgw_proto/wire` from the sources in `llmgw/v1`.

    python proto/generate.py            write the folder
    python proto/generate.py --check    say what would change; exit 1 when something would

The folder holds betterproto2's messages and `llmgw.binpb`, the descriptors from which protobuf's C
runtime makes its own messages. Committed `_pb2` modules would tie the checkout to one release of
protobuf; descriptors do not.
"""

import argparse
import filecmp
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "llmgw" / "v1"
WIRE = HERE / "llmgw_proto" / "wire"
DESCRIPTORS = "llmgw.binpb"


def protoc(out: Path) -> None:
    """Write messages and descriptors into the empty directory `out`."""
    sources = sorted(str(path.relative_to(HERE)) for path in SOURCES.glob("*.proto"))
    argv = [sys.executable, "-m", "grpc_tools.protoc", f"-I{HERE}"]
    argv += [f"--python_betterproto2_out={out}", "--include_imports"]
    argv += ["--python_betterproto2_opt=client_generation=none,server_generation=none"]
    argv += [f"--descriptor_set_out={out / DESCRIPTORS}", *sources]
    # The compiler is found on PATH; an environment that is not activated has it beside its Python.
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    done = subprocess.run(
        argv,
        cwd=HERE,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"protoc failed:\n{done.stdout}{done.stderr}")
    for ours in (out / "__init__.py", out / "llmgw" / "__init__.py"):
        ours.touch()


def generated(root: Path) -> set[str]:
    """Return the paths of what the compiler wrote below `root`."""
    return {
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def differences(fresh: Path, kept: Path) -> list[str]:
    """Return one line for each file that is missing, too many or different in `kept`."""
    new, old = generated(fresh), generated(kept)
    lines = [f"missing: {name}" for name in sorted(new - old)]
    lines += [f"no longer generated: {name}" for name in sorted(old - new)]
    both = sorted(new & old)
    return lines + [
        f"differs: {name}"
        for name in both
        if not filecmp.cmp(fresh / name, kept / name, shallow=False)
    ]


def main() -> int:
    """Generate, or check that generating changes nothing."""
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    flags.add_argument(
        "--check", action="store_true", help="change nothing; exit 1 on a difference"
    )
    check = flags.parse_args().check
    with tempfile.TemporaryDirectory() as place:
        fresh = Path(place)
        protoc(fresh)
        if check:
            lines = differences(fresh, WIRE)
            sys.stdout.writelines(f"{line}\n" for line in lines)
            return 1 if lines else 0
        shutil.rmtree(WIRE, ignore_errors=True)
        shutil.copytree(fresh, WIRE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
