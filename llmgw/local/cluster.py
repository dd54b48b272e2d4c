"""A cluster on one machine, as real processes under one directory: the demo's and the tests'."""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from llmgw.base.errors import LlmgwError, NotFound, TimedOut, Unreachable
from llmgw.base.secrets import Secret
from llmgw.client.contexts import Context
from llmgw.client.interface import WHATEVER
from llmgw.client.oneshot import OneShot
from llmgw.local.processes import Owned, Owner, environ_of_services
from llmgw.local.reply import known
from llmgw.model.catalog import Model
from llmgw.model.node import READY as NODE_READY
from llmgw.model.record import Record

T = TypeVar("T")

FIRST_ENGINE_PORT = 7500
PORTS_A_NODE = 50


class Layout(Record, frozen=True, kw_only=True):
    """Where things of a local cluster lie, and how its services start."""

    directory: str
    weights: str
    engines: str
    settings: dict[str, Any] = msgspec.field(default_factory=dict)
    """Cluster settings by dotted path, put before the first agent starts."""
    log_level: str = "info"


class LocalCluster:
    """Starts a control plane, a gateway and agents, and ends them with their engines.

    All of them listen on loopback, on free ports. A service that was killed on purpose can be
    started again under its name, on the same state and the same ports.
    """

    def __init__(self, layout: Layout, environ: Mapping[str, str]) -> None:
        self.layout = layout
        self.directory = Path(layout.directory)
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        services = environ_of_services(environ)
        # The context `local` that a new control plane writes must not land in the user's own file.
        services["XDG_CONFIG_HOME"] = str(self.directory / "config")
        self.owner = Owner(self.directory, services)
        self.admin: str | None = None
        self.link: str | None = None
        self.gateway_port: int | None = None
        self.nodes: list[str] = []

    # -- control plane ---------------------------------------------------------------------

    @property
    def server_state(self) -> Path:
        """Return the control plane's state directory."""
        return self.directory / "server"

    @property
    def token_file(self) -> Path:
        """Return the file that holds the admin token."""
        return self.server_state / "admin.token"

    def start_server(self, *, timeout: float = 30.0) -> Owned:
        """Start the control plane, and return when its admin API answers."""
        config = self._write_config(
            "server",
            {
                "state_dir": str(self.server_state),
                "admin": self.admin or "127.0.0.1:0",
                "link": self.link or "127.0.0.1:0",
                "print_ready": True,
                "log_level": self.layout.log_level,
            },
        )
        ready = self.directory / "server.ready"
        with ready.open("wb") as out:
            service = self.owner.start("server", self._argv("server", config), stdout=out)
        line = self.wait(
            lambda: ready.read_text().partition("\n")[0], timeout, "the control plane", service
        )
        said = json.loads(line)
        self.admin = said["admin"].removeprefix("http://")
        self.link = said["link"]
        return service

    def client(self, *, timeout: float = 30.0) -> OneShot:
        """Return a client of the admin API with the admin's token."""
        token = Secret(self.token_file.read_text().strip())
        context = Context(name=None, server=f"http://{self.admin}", token=token)
        return OneShot(context, timeout=timeout)

    def put_settings(self, settings: Mapping[str, object]) -> None:
        """Set cluster settings by dotted path."""
        client = self.client()
        for path, value in settings.items():
            client.put("/settings", {"path": path, "value": value})

    # -- gateway ---------------------------------------------------------------------------

    @property
    def gateway_url(self) -> str:
        """Return the address users ask, once the gateway listens."""
        return f"http://127.0.0.1:{self.gateway_port}"

    def start_gateway(self, *, timeout: float = 30.0) -> Owned:
        """Start the gateway with the certificate that the control plane made for this machine."""
        files = self.server_state / "gateway"
        config = self._write_config(
            "gateway",
            {
                "state_dir": str(self.directory / "gateway"),
                "listen": f"127.0.0.1:{self.gateway_port or 0}",
                "control_planes": [self.link],
                "certificate": str(files / "identity.pem"),
                "key": str(files / "identity.pem"),
                "authority": str(files / "authority.pem"),
                "drain": 5.0,
                "log_level": self.layout.log_level,
            },
        )
        service = self.owner.start("gateway", self._argv("gateway", config))
        if self.gateway_port is None:
            url = self.wait(self._told_url, timeout, "the gateway", service)
            self.gateway_port = int(url.rpartition(":")[2])
        return service

    def _told_url(self) -> str | None:
        gateways = self.client().get("/gateways")
        return next((g["url"] for g in gateways if g["connected"] and g["url"]), None)

    # -- agents ----------------------------------------------------------------------------

    def agent_state(self, node: str) -> Path:
        """Return a node's state directory."""
        return self.directory / node

    def start_agent(
        self, node: str, *, environ: Mapping[str, str] | None = None, **more: object
    ) -> Owned:
        """Start an agent; it joins with a one-time token the first time.

        Args:
            node: its id.
            environ: added to its environment.
            more: further fields of the agent's own file.
        """
        if node not in self.nodes:
            self.nodes.append(node)
        state = self.agent_state(node)
        first = FIRST_ENGINE_PORT + PORTS_A_NODE * (self.nodes.index(node) % 10)
        config = self._write_config(
            node,
            {
                "state_dir": str(state),
                "node": node,
                "control_planes": [self.link],
                "engine_host": "127.0.0.1",
                "address": "127.0.0.1",
                "engine_ports": f"{first}-{first + PORTS_A_NODE - 1}",
                "weights_dir": self.layout.weights,
                "engines_dir": self.layout.engines,
                "log_level": self.layout.log_level,
                # Its agents share one machine: each would measure what the others leave it.
                "measure_bandwidth": False,
                **more,
            },
        )
        argv = self._argv("agent", config)
        token: bytes | None = None
        if not any(state.rglob("identity.pem")):
            answer = self.client().post("/join-tokens", {"role": "node", "subject": node})
            # On standard input: arguments and the environment can be seen by others.
            argv += ["--join", "-", "--server", str(self.link)]
            token = answer["token"].encode() + b"\n"
        self.owner.own_engines_of(state)
        return self.owner.start(node, argv, stdin=token, environ=environ)

    # -- all -------------------------------------------------------------------------------

    def start(self, agents: int = 1) -> None:
        """Start everything: control plane, settings, gateway, agents."""
        self.start_server()
        self.put_settings(self.layout.settings)
        self.start_gateway()
        for number in range(1, agents + 1):
            self.start_agent(f"node-{number}")
        self.wait(self._nodes_ready, 30.0, "the nodes are ready")

    def _nodes_ready(self) -> bool:
        ready = {n["id"] for n in self.client().get("/nodes") if n["liveness"] == NODE_READY}
        return ready >= set(self.nodes)

    def put_model(self, model: Model) -> None:
        """Add a model, or replace it whatever there is of it."""
        self.client().put(f"/models/{model.name}", msgspec.to_builtins(model), version=WHATEVER)

    def make_key(self, name: str) -> Secret:
        """Make a user's key, and return it when the gateway knows it."""
        key = Secret(self.client().post("/keys", {"name": name})["key"])
        self.wait(lambda: known(self.gateway_url, key), 15.0, "the gateway learns a new key")
        return key

    def end(self) -> None:
        """End everything with its engines, and return when it is gone."""
        self.owner.end()

    def wait(
        self,
        condition: Callable[[], T | None],
        timeout: float,
        what: str,
        service: Owned | None = None,
    ) -> T:
        """Return the first true value of a condition.

        Raises:
            LlmgwError: the service that it waits for ended; says its last words.
            TimedOut: it never was true.
        """
        until = time.monotonic() + timeout
        while True:
            try:
                value = condition()
            except (Unreachable, NotFound, FileNotFoundError, TimedOut):
                value = None
            if value:
                return value
            if service is not None and not service.alive():
                said = " | ".join(service.last_lines()) or "it said nothing"
                raise LlmgwError(f"{what} ended: {said}", hint=f"its log: {service.log}")
            if time.monotonic() > until:
                raise TimedOut(
                    f"{what}: nothing within {timeout:g} s", hint=f"logs: {self.directory}/*.log"
                )
            time.sleep(0.05)  # noqa: TID251  (a command without a loop that waits for processes)

    def _write_config(self, name: str, values: Mapping[str, object]) -> Path:
        path = self.directory / f"{name}.yaml"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w") as out:
            json.dump(values, out, indent=2)  # JSON is YAML too
        return path

    def _argv(self, service: str, config: Path) -> list[str]:
        return [sys.executable, "-m", "llmgw", service, "--config", str(config)]


def kill(service: Owned) -> None:
    """Kill a service the hard way, alone: SIGKILL to its process, not to its group."""
    service.process.kill()
    service.process.wait()
