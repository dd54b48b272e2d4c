"""What holds for the checkout as a whole."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TOP = {
    *("pyproject.toml", "llmgw", "tui", "agent", "proto", "tests", "snapshots", "docs"),
    *("install.sh", "requirements", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"),
    *("buf.yaml", "buf.gen.yaml", ".ci", ".gitignore"),
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def tracked() -> list[Path]:
    """Return the files of the checkout, whether or not git is there to list them."""
    skipped = {".git", ".venv", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}
    skipped |= {".hypothesis", ".import_linter_cache"}
    return [
        path
        for path in ROOT.rglob("*")
        if path.is_file() and not skipped & set(path.relative_to(ROOT).parts)
    ]


def test_the_top_level_holds_what_was_agreed_and_nothing_else() -> None:
    hidden = {".venv", ".git", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}
    hidden |= {".import_linter_cache", ".benchmarks", "__pycache__"}
    assert {path.name for path in ROOT.iterdir()} - hidden <= TOP


@pytest.mark.parametrize("name", ["run.lock", "build.lock", "dev.lock"])
def test_lock_files_hold_hashes_and_no_addresses(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text()
    assert "://" not in text
    pins = re.findall(r"^[a-z0-9][a-z0-9._-]*==\S+.*$(?:\n    --hash.*$)*", text, re.MULTILINE)
    assert len(pins) == len(re.findall(r"^\S+==", text, re.MULTILINE))
    assert all("--hash=sha256:" in pin for pin in pins)


def test_every_dependency_is_locked_and_has_its_line() -> None:
    locked = (ROOT / "requirements" / "run.lock").read_text()
    told = (ROOT / "docs" / "adr" / "dependencies.md").read_text()
    for text in PROJECT["project"]["dependencies"]:
        name = re.split(r"[=~<>]", text)[0]
        assert re.search(rf"^{re.escape(name)}==", locked, re.MULTILINE), name
        assert name in told, f"{name} has no line in docs/adr/dependencies.md"


def test_what_runs_does_not_depend_on_pydantic_and_tools_are_not_installed_with_it() -> None:
    locked = (ROOT / "requirements" / "run.lock").read_text()
    for name in ("pydantic", "pytest", "grpcio-tools", "openai", "mypy"):
        assert not re.search(rf"^{name}==", locked, re.MULTILINE), name


def test_no_file_names_a_package_index_or_this_machine() -> None:
    index = re.compile(rb"(?:pypi|pythonhosted|npmjs)\.org|/simple/\s*$")
    machine = re.compile(rb"/(?:work|home)/(?:main|shared)\b")
    for path in tracked():
        if path.suffix in {".lock", ".png", ".binpb"} or "fixtures" in path.parts:
            continue
        data = path.read_bytes()
        if path != Path(__file__).resolve():
            assert not index.search(data), path
            assert not machine.search(data), path


def test_every_package_says_what_it_is() -> None:
    for path in tracked():
        if path.name == "__init__.py" and "tests" not in path.parts and "wire" not in path.parts:
            assert path.read_text().startswith('"""'), path


def test_every_room_stands_in_an_import_contract() -> None:
    sources = {
        name
        for contract in PROJECT["tool"]["importlinter"]["contracts"]
        for name in contract["source_modules"]
    }
    rooms = {f"llmgw.{path.parent.name}" for path in (ROOT / "llmgw").glob("*/__init__.py")}
    assert rooms | {"llmgw_agent", "llmgw_tui"} <= sources


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("llmgw.cli.main", "msgspec rich httpx textual grpclib pydantic yaml asyncio uvicorn"),
        ("llmgw.cli.ctl.nodes", "httpx textual grpclib pydantic yaml rich uvicorn structlog"),
        ("llmgw_tui.launch", "textual httpx grpclib pydantic"),
        ("llmgw.gateway.worker", "textual httpx pydantic sqlite3 sqlite_utils starlette typer"),
        ("llmgw_agent.main", "textual starlette uvicorn sqlite_utils prometheus_client"),
        ("llmgw.control.server", "textual typer llmgw_agent llmgw.gateway"),
    ],
)
def test_starting_up_loads_nothing_that_it_does_not_need(module: str, unwanted: str) -> None:
    code = f"import sys, {module}; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {name for name in unwanted.split() if name in loaded} == set()


def test_a_listing_loads_no_command() -> None:
    code = (
        "import sys\nfrom llmgw.cli.main import app\n"
        "try: app(['--help'])\nexcept SystemExit: pass\n"
        "print([m for m in sys.modules if m in ('msgspec', 'rich', 'httpx', 'textual', 'grpclib',"
        " 'pydantic', 'yaml', 'asyncio') or m.startswith('llmgw.cli.ctl')], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
