"""`llmgw demo`: from a machine with nothing to a reply, and everything gone again afterwards."""

import json
import os
import secrets
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmgw.base.errors import LlmgwError, Refused, TimedOut
from llmgw.base.places import Places, private_dir
from llmgw.base.secrets import Secret
from llmgw.base.units import show_bytes
from llmgw.local import demo_model, interrupts
from llmgw.local.cluster import Layout, LocalCluster
from llmgw.local.progress import Progress
from llmgw.local.reply import Answer, complete
from llmgw.model.catalog import LLAMACPP, Model
from llmgw.model.node import FAILED as ENGINE_FAILED
from llmgw.model.shard import FAILED, READY

NODE = "demo"
TOKENS = 48
READY_WITHIN = 600.0
ROUTED_WITHIN = 10.0
"""Seconds for downloads, installation and loading together."""


@dataclass(frozen=True, slots=True)
class Options:
    """How the demo is asked for.

    `once` prints a reply and ends; `headless` prints where it serves as JSON and serves until
    interrupted; neither opens the console.
    """

    once: bool = False
    headless: bool = False
    simulated: bool = False
    directory: Path | None = None
    prompt: str | None = None
    """None: the demo's own."""


@dataclass(frozen=True, slots=True)
class Served:
    """What the demo serves, once a replica is ready."""

    model: Model
    replica: dict[str, Any]
    sentence: str
    """The plan's, in which the replica was started."""


def run(options: Options) -> int:
    """Start everything, do what was asked, end everything; return the exit code."""
    interrupts.as_exceptions()
    places = Places.find("agent", environ=os.environ, root=os.geteuid() == 0)
    directory = options.directory or own_directory(places.state.parent)
    layout = Layout(
        directory=str(directory.absolute()),
        weights=str(kept_or_own(places.weights, directory / "weights")),
        engines=str(kept_or_own(places.engines, directory / "engines")),
        # Nothing can be running yet, so there is nobody to wait for.
        settings={"reconcile.settling": 0.0, "reconcile.period": 0.5},
    )
    cluster = LocalCluster(layout, os.environ)
    if options.directory is None:
        cluster.owner.remove_at_end(directory)
    try:
        return _serve(cluster, options)
    except interrupts.Interrupted as interrupted:
        if sys.stderr.isatty():
            sys.stderr.write("\n")  # behind the line that changes, and the ^C in it
        return 0 if options.headless else interrupted.exit_code
    finally:
        cluster.end()


def _serve(cluster: LocalCluster, options: Options) -> int:
    progress = Progress(sys.stderr)
    progress.step("starting control plane, gateway and agent")
    cluster.start_server()
    cluster.put_settings(cluster.layout.settings)
    cluster.start_gateway()
    cluster.start_agent(NODE)
    model = demo_model.simulated() if options.simulated else demo_model.real()
    if not options.once and not options.headless:
        # The console is there to watch it come up.
        cluster.put_model(model)
        key = cluster.make_key("demo")
        progress.done()
        # The console has a screen of its own: what is printed here shows again when it is left.
        print("\n".join(how_to_ask(cluster.gateway_url, key, model)), flush=True)
        code = _console(cluster)
        print(f"the demo ends: {cluster.gateway_url} and its key answer no more", flush=True)
        return code
    served = _bring_up(cluster, model, progress)
    key = cluster.make_key("demo")
    if options.headless:
        progress.done()
        return _headless(cluster, served, key)
    progress.done()
    answer = _reply(cluster, served, key, options.prompt or demo_model.PROMPT)
    _report(cluster, served, answer)
    return 0


def _bring_up(cluster: LocalCluster, model: Model, progress: Progress) -> Served:
    """Add the model and wait for a replica; fall back to the simulated engine, and say so."""
    cluster.put_model(model)
    try:
        return _wait_ready(cluster, model, progress)
    except _CannotRun as reason:
        progress.say(f"a real engine can't be had here: {reason.message}")
        progress.say("using the simulated engine instead: its words mean nothing")
    cluster.client().delete(f"/models/{model.name}")
    fallback = demo_model.simulated()
    cluster.put_model(fallback)
    return _wait_ready(cluster, fallback, progress)


class _CannotRun(LlmgwError):
    """The real engine or its model can't be had on this machine."""


def _wait_ready(cluster: LocalCluster, model: Model, progress: Progress) -> Served:
    sentences: dict[str, str] = {}

    def ready() -> Served | None:
        client = cluster.client()
        plan = client.get("/plan")
        for step in plan["steps"] if plan else ():
            if step["kind"] == "start":
                sentences[step["replica"]] = plan["sentence"]
        replicas = [r for r in client.get("/replicas") if r["model"] == model.name]
        found = next((r for r in replicas if r["state"] == READY), None)
        if found is not None:
            return Served(
                model, found, sentences.get(found["id"], plan["sentence"] if plan else "")
            )
        progress.step(_doing(client.get(f"/nodes/{NODE}"), replicas))
        _give_up(client.get(f"/nodes/{NODE}"), replicas, model)
        return None

    try:
        return cluster.wait(ready, READY_WITHIN, f"{model.name} is not ready")
    except TimedOut as error:
        raise TimedOut(error.message, hint=f"logs: {cluster.directory}") from error


def _doing(node: dict[str, Any], replicas: list[dict[str, Any]]) -> str:
    """Return what is being waited for, in the node's own words."""
    for replica in replicas:
        for shard in replica["shards"]:
            if (seen := shard.get("progress")) is not None:
                return _with_bytes(seen)
        return f"{replica['id']} is {replica['state']}"
    for engine in node["inventory"].get("engines") or ():
        if engine["engine"] == LLAMACPP and engine["state"] != "installed":
            return f"llama.cpp {engine['words'] or engine['state']}"
    return "waiting for the node"


def _with_bytes(seen: dict[str, Any]) -> str:
    done, total = seen.get("done_bytes"), seen.get("total_bytes")
    if done is None:
        return str(seen["words"])
    of = f" of {show_bytes(total)}" if total else " so far"
    return f"{seen['words']} ({show_bytes(done)}{of})"


def _give_up(node: dict[str, Any], replicas: list[dict[str, Any]], model: Model) -> None:
    """Raise when waiting longer will not help."""
    if model.source is None:
        return
    for engine in node["inventory"].get("engines") or ():
        if engine["engine"] == LLAMACPP and engine["state"] == ENGINE_FAILED:
            raise _CannotRun(engine["words"] or "llama.cpp could not be installed")
    for replica in replicas:
        if replica["state"] == FAILED:
            raise _CannotRun(replica["reason"] or f"{replica['id']} failed")


def _reply(cluster: LocalCluster, served: Served, key: Secret, prompt: str) -> Answer:
    print(f"\n{prompt}", end="", flush=True)

    def answered() -> tuple[Answer | LlmgwError] | None:
        try:
            return (_ask(cluster, served, key, prompt),)
        except LlmgwError as error:
            # The gateway hears of a ready replica a moment after the control plane.
            unrouted = isinstance(error, Refused) and ": 503 " in error.message
            return None if unrouted else (error,)

    words = f"the gateway does not serve {served.model.name}"
    (answer,) = cluster.wait(answered, ROUTED_WITHIN, words)
    if isinstance(answer, LlmgwError):
        raise answer
    return answer


def _ask(cluster: LocalCluster, served: Served, key: Secret, prompt: str) -> Answer:
    return complete(
        cluster.gateway_url,
        key,
        served.model.name,
        prompt,
        tokens=TOKENS,
        on_text=lambda text: print(_clean(text), end="", flush=True),
    )


def _clean(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def _report(cluster: LocalCluster, served: Served, answer: Answer) -> None:
    shard = served.replica["shards"][0]
    compute = shard.get("compute") or {}
    speed = answer.tokens_per_second
    rows = [
        ("reply", f"{answer.completion_tokens or '-'} tokens through {cluster.gateway_url}"),
        ("tokens/s", f"{speed:.1f}" if speed is not None else "-"),
        ("first token", f"{answer.first_token:.2f} s"),
        ("node", shard["node"]),
        ("replica", served.replica["id"]),
        ("engine", _engine(cluster, served)),
        ("back end", compute.get("back_end") or "-"),
        ("plan", served.sentence),
    ]
    print("\n")
    for name, value in rows:
        print(f"{name:<12} {value}")


def _engine(cluster: LocalCluster, served: Served) -> str:
    name = served.replica["engine"]
    node = cluster.client().get(f"/nodes/{NODE}")
    for engine in node["inventory"].get("engines") or ():
        if engine["engine"] == name and engine["version"]:
            return f"{name} {engine['version']}"
    return str(name)


def _headless(cluster: LocalCluster, served: Served, key: Secret) -> int:
    print(
        json.dumps(
            {
                "gateway": cluster.gateway_url,
                "key": key.reveal(),
                "model": served.model.name,
                "replica": served.replica["id"],
                "admin": f"http://{cluster.admin}",
                "token_file": str(cluster.token_file),
            }
        ),
        flush=True,
    )
    signal.pause()
    return 0


def how_to_ask(gateway: str, key: Secret, model: Model) -> list[str]:
    """Return where the demo serves, its key, and a command that asks it.

    They are for the terminal of who started it, and hold the key itself.
    """
    body = {"model": model.name, "prompt": demo_model.PROMPT, "max_tokens": TOKENS}
    asked = (
        f"curl {gateway}/v1/completions -H 'Authorization: Bearer {key.reveal()}'"
        f" -H 'Content-Type: application/json' -d {shlex.quote(json.dumps(body))}"
    )
    rows = [("gateway", f"{gateway}/v1"), ("API key", key.reveal()), ("ask it", asked)]
    return [f"{name:<12} {value}" for name, value in rows]


def _console(cluster: LocalCluster) -> int:
    environ = {
        **os.environ,
        "LLMGW_SERVER": f"http://{cluster.admin}",
        "LLMGW_TOKEN_FILE": str(cluster.token_file),
    }
    argv = [sys.executable, "-m", "llmgw", "console"]
    process = subprocess.Popen(argv, env=environ)
    # It shares this terminal, so it can't lead a group of its own.
    cluster.owner.own(process.pid, group=False)
    try:
        return process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def own_directory(beside: Path) -> Path:
    """Make a private directory for one demo; what it lies in may be open to others."""
    return private_dir(beside / f"demo-{secrets.token_hex(4)}")


def kept_or_own(kept: Path, own: Path) -> Path:
    """Return where downloads go: kept for later if this user may write there, else the demo's own.

    Args:
        kept: this user's cache, shared with the services.
        own: below the demo's directory, so that it goes with it.
    """
    try:
        kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        why = None if os.access(kept, os.W_OK | os.X_OK) else "this user may not write there"
    except OSError as error:
        why = error.strerror
    if why is None:
        return kept
    sys.stderr.write(f"{kept} can't be used ({why}): downloads are not kept for later\n")
    return own
