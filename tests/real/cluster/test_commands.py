"""The command line against a real cluster: what a person types, sees and gets wrong."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from llmgw.local import demo_model
from llmgw.local.cluster import Layout, LocalCluster
from tests.cluster import FAST
from tests.real.cluster.watching import ready

pytestmark = pytest.mark.real


@dataclass
class Shell:
    """Runs `llmgw` as an operator of the cluster."""

    cluster: LocalCluster

    def __call__(
        self, *argv: str, stdin: str | None = None, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "llmgw", *argv],
            env={
                **self.cluster.owner.environ,
                "LLMGW_SERVER": f"http://{self.cluster.admin}",
                "LLMGW_TOKEN_FILE": str(self.cluster.token_file),
                **environ,
            },
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def ok(self, *argv: str, **more: str) -> str:
        done = self(*argv, **more)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def fails(self, code: int, *argv: str, stdin: str | None = None, **environ: str) -> str:
        """Run a command that must fail with that code and say so in one line and a hint."""
        done = self(*argv, stdin=stdin, **environ)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
        first, *hint = done.stderr.splitlines()
        assert first
        assert len(hint) <= 1, done.stderr
        return done.stderr


@pytest.fixture(scope="module")
def llmgw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    directory = tmp_path_factory.mktemp("cluster")
    cluster = LocalCluster(
        Layout(
            directory=str(directory / "c"),
            weights=str(directory / "weights"),
            engines=str(directory / "engines"),
            settings=dict(FAST),
        ),
        os.environ,
    )
    try:
        cluster.start(agents=1)
        model = demo_model.simulated()
        cluster.put_model(model)
        ready(cluster, model.name)
        yield Shell(cluster)
    finally:
        cluster.end()


LISTS = (
    ("nodes",),
    ("replicas",),
    ("models",),
    ("jobs",),
    ("keys",),
    ("gateways",),
    ("events",),
    ("hardware",),
    ("audit",),
    ("usage",),
    ("token", "list"),
    ("config", "history"),
    ("explain", "simulated"),
)


@pytest.mark.parametrize("command", LISTS, ids=" ".join)
def test_every_list_is_a_table_and_json(llmgw: Shell, command: tuple[str, ...]) -> None:
    def count() -> int:
        rows = json.loads(llmgw.ok("ctl", *command, "-o", "json"))
        assert isinstance(rows, list)
        return len(rows)

    before = count()
    table = llmgw.ok("ctl", *command).splitlines()
    names = llmgw.ok("ctl", *command, "-o", "name").splitlines()
    # Events and audit entries come while the test asks.
    assert before <= len(table[1:]) <= len(names) <= count()


def test_status_says_whether_it_serves(llmgw: Shell) -> None:
    text = llmgw.ok("ctl", "status")
    assert "1 ready" in text
    assert "yes: 1 of 1 model can answer" in text
    assert "simulated  1 of 1 ready" in text
    assert json.loads(llmgw.ok("ctl", "status", "-o", "json"))["cluster"] == "llmgw"


def test_a_node_is_shown_with_what_runs_on_it(llmgw: Shell) -> None:
    text = llmgw.ok("ctl", "node", "node-1")
    assert "ready" in text
    assert "simulated-" in text
    assert json.loads(llmgw.ok("ctl", "node", "show", "node-1", "-o", "json"))["id"] == "node-1"


def test_the_plan_has_a_sentence_and_explain_a_verdict_a_node(llmgw: Shell) -> None:
    assert llmgw.ok("ctl", "plan").startswith("plan ")
    assert "node-1" in llmgw.ok("ctl", "explain", "simulated")


def test_logs_of_the_agent_and_of_an_engine_are_read(llmgw: Shell) -> None:
    assert "welcomed" in llmgw.ok("ctl", "logs", "node-1", "-n", "500")
    sources = json.loads(llmgw.ok("ctl", "logs", "node-1", "-o", "json"))["sources"]
    shard = next(source for source in sources if source.startswith("simulated-"))
    assert "simulated" in llmgw.ok("ctl", "logs", "node-1", "--source", shard)


def test_a_model_s_life(llmgw: Shell, tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text("name: second\nprofiles:\n  - engine: simulated\n    replicas: 1\n")
    assert "would be added" in llmgw("ctl", "model", "add", str(file), "--dry-run").stderr
    assert "second is version 1" in llmgw.ok("ctl", "model", "add", str(file))
    shown = llmgw.ok("ctl", "model", "second")
    assert "engine: simulated" in shown
    again = llmgw("ctl", "model", "add", "-", stdin=shown)
    assert again.returncode == 0, again.stderr
    assert "will end" in llmgw("ctl", "model", "rm", "second", "--dry-run").stderr
    assert llmgw("ctl", "model", "rm", "second").returncode == 2, "nobody was asked"
    assert "second is removed" in llmgw.ok("ctl", "model", "rm", "second", "--yes")
    llmgw.fails(3, "ctl", "model", "second")


def test_a_key_is_shown_once_and_works_until_it_is_removed(llmgw: Shell) -> None:
    made = json.loads(llmgw.ok("ctl", "key", "add", "alice", "--expires", "1h", "-o", "json"))
    assert made["key"].startswith(f"llmgw_{made['id']}_")
    assert made["key"] not in llmgw.ok("ctl", "keys", "-o", "json")
    assert "is removed" in llmgw.ok("ctl", "key", "rm", made["id"], "--yes")
    llmgw.fails(3, "ctl", "key", "rm", made["id"], "--yes")


def test_settings_are_read_changed_and_looked_back_at(llmgw: Shell) -> None:
    assert llmgw.ok("ctl", "config", "get", "link.lost_after").strip() == "6.0"
    assert (
        "would become" in llmgw("ctl", "config", "set", "link.lost_after", "7", "--dry-run").stderr
    )
    assert "6.0 -> 7" in llmgw.ok("ctl", "config", "set", "link.lost_after", "7")
    assert "link.lost_after" in llmgw.ok("ctl", "config", "history", "link")
    llmgw.ok("ctl", "config", "set", "link.lost_after", "6.0")


def test_following_a_list_prints_what_changes_until_it_is_interrupted(llmgw: Shell) -> None:
    import signal

    from tests.waiting import wait_for

    out = llmgw.cluster.directory / "watch.out"
    with out.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "llmgw", "ctl", "keys", "-o", "table"],
            stdout=subprocess.DEVNULL,
        )
        process.wait()
        process = subprocess.Popen(
            [sys.executable, "-m", "llmgw", "ctl", "models", "--watch"],
            stdout=file,
            env={
                **llmgw.cluster.owner.environ,
                "LLMGW_SERVER": f"http://{llmgw.cluster.admin}",
                "LLMGW_TOKEN_FILE": str(llmgw.cluster.token_file),
            },
        )
    try:
        wait_for(lambda: "simulated" in out.read_text(), 20)
        llmgw.cluster.put_model(demo_model.simulated("appears"))
        wait_for(lambda: "appears" in out.read_text(), 20)
    finally:
        process.send_signal(signal.SIGINT)
    assert process.wait(10) == 130
    llmgw.ok("ctl", "model", "rm", "appears", "--yes")


# -- what people get wrong -----------------------------------------------------------------


def test_an_unknown_field_in_a_model_file_names_path_and_nearest(
    llmgw: Shell, tmp_path: Path
) -> None:
    file = tmp_path / "m.yaml"
    file.write_text("name: x\nprofiles:\n  - engine: simulated\n    replcas: 1\n")
    said = llmgw.fails(1, "ctl", "model", "add", str(file))
    assert "profiles[0].replcas: no such field" in said
    assert "did you mean 'replicas'?" in said


def test_every_problem_of_a_model_is_told_at_once(llmgw: Shell, tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text("name: x\nprofiles:\n  - {engine: ollama, gpus: -1}\n")
    done = llmgw("ctl", "model", "add", str(file))
    assert done.returncode == 1
    assert "profiles[0].engine" in done.stderr
    assert "profiles[0].gpus" in done.stderr
    assert "nothing was changed" in done.stderr


def test_a_missing_model_file_is_named(llmgw: Shell) -> None:
    assert "/nowhere/m.yaml: no such file" in llmgw.fails(
        3, "ctl", "model", "add", "/nowhere/m.yaml"
    )


def test_a_setting_that_is_none_names_what_there_is(llmgw: Shell) -> None:
    said = llmgw.fails(3, "ctl", "config", "get", "link.lost_aftr")
    assert "lost_after" in said
    llmgw.fails(3, "ctl", "config", "set", "link.lost_aftr", "5")
    assert "link.lost_after" in llmgw.fails(1, "ctl", "config", "set", "link.lost_after", "0.5")


def test_a_wrong_token_and_no_server_are_told_apart(llmgw: Shell) -> None:
    wrong = llmgw.fails(4, "ctl", "nodes", LLMGW_TOKEN="x" * 40, LLMGW_TOKEN_FILE="")
    assert "token" in wrong
    away = llmgw.fails(5, "ctl", "nodes", LLMGW_SERVER="http://127.0.0.1:9")
    assert "127.0.0.1:9" in away


def test_a_read_only_token_sees_and_cannot_do(llmgw: Shell) -> None:
    made = json.loads(llmgw.ok("ctl", "token", "add", "eyes", "--role", "read", "-o", "json"))
    environ = {"LLMGW_TOKEN": made["token"], "LLMGW_TOKEN_FILE": ""}
    assert "node-1" in llmgw.ok("ctl", "nodes", **environ)
    llmgw.fails(4, "ctl", "key", "add", "mallory", **environ)
    llmgw.fails(4, "ctl", "node", "cordon", "node-1", **environ)
    llmgw.ok("ctl", "token", "rm", made["id"], "--yes")


def test_a_node_that_is_none_and_a_service_file_that_is_wrong(llmgw: Shell, tmp_path: Path) -> None:
    llmgw.fails(3, "ctl", "node", "nobody")
    llmgw.fails(3, "ctl", "logs", "nobody")
    file = tmp_path / "server.yaml"
    file.write_text("admn: 127.0.0.1:1\n")
    said = llmgw.fails(1, "server", "--config", str(file))
    assert "admn: no such field" in said
    assert "did you mean 'admin'?" in said


def test_a_join_token_works_once_and_for_its_own_node_alone(llmgw: Shell, tmp_path: Path) -> None:
    token = llmgw.ok("ctl", "node", "token", "node-7").strip()

    def join(node: str, text: str) -> str:
        state = tmp_path / f"{node}-{len(text)}-{os.urandom(2).hex()}"
        argv = ["agent", "--node", node, "--state-dir", str(state), "--join", "-"]
        return llmgw.fails(4, *argv, "--server", str(llmgw.cluster.link), stdin=text + "\n")

    assert "node-7" in join("node-8", token)
    broken = token[:-4] + ("aaaa" if token[-4:] != "aaaa" else "bbbb")
    assert "token" in join("node-7", broken)
    other_ca = token.split(".")
    other_ca[1] = "0" * 64
    assert "CA" in join("node-7", ".".join(other_ca))
