"""`llmgw server`, `gateway` and `agent`: foreground services, each with one file of its own.

What a service needs to start comes from flag > `LLMGW_*` > file > default; all else is a setting of
the cluster.
"""

import importlib
import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer

from llmgw.base.errors import LlmgwError, NotFound, Unreadable, Usage
from llmgw.base.limits import takes_no_more
from llmgw.base.places import Places, check_ours
from llmgw.base.secrets import redact
from llmgw.model.misplaced import refuse_cluster_settings
from llmgw.model.written import layered, plain_yaml

Config = Annotated[
    Path | None, typer.Option("--config", help="The service's own file; found when not given.")
]
StateDir = Annotated[
    str | None, typer.Option("--state-dir", help="Where its state lies; overrides the default.")
]
LogLevel = Annotated[
    str | None, typer.Option("--log-level", help="debug, info or warning.", show_default=False)
]
Join = Annotated[
    str | None,
    typer.Option(
        "--join",
        metavar="TOKEN",
        help="Join with a one-time token; - reads it from standard input, where `ps` can't see it.",
    ),
]
Server = Annotated[
    list[str] | None,
    typer.Option("--server", metavar="ADDR", help="A control plane: HOST:7442. May be repeated."),
]


def server(
    config: Config = None,
    state_dir: StateDir = None,
    admin: Annotated[
        str | None, typer.Option("--admin", help="Where the admin API listens.", show_default=False)
    ] = None,
    link: Annotated[
        str | None, typer.Option("--link", help="Where agents and gateways connect.")
    ] = None,
    address: Annotated[
        list[str] | None,
        typer.Option("--address", help="A name or address nodes reach it by, for its certificate."),
    ] = None,
    print_ready: Annotated[
        bool, typer.Option("--print-ready", help="Print one JSON line on stdout when it is ready.")
    ] = False,
    log_level: LogLevel = None,
) -> None:
    """Run a control plane."""
    flags = {
        "state_dir": state_dir,
        "admin": admin,
        "link": link,
        "addresses": address or None,
        "print_ready": print_ready or None,
        "log_level": log_level,
    }
    _serve("server", "llmgw.control.config:ServerConfig", "llmgw.control.server", config, flags)


def gateway(
    config: Config = None,
    state_dir: StateDir = None,
    listen: Annotated[
        str | None, typer.Option("--listen", help="Where users connect.", show_default=False)
    ] = None,
    workers: Annotated[int | None, typer.Option("--workers", help="Processes.")] = None,
    endpoints: Annotated[
        str | None,
        typer.Option(
            "--endpoints",
            metavar="FILE",
            help="Models, endpoints and keys: with it there is no control plane.",
        ),
    ] = None,
    tls: Annotated[
        str | None,
        typer.Option("--tls", help="`cluster`: users are shown a certificate of the cluster."),
    ] = None,
    tls_cert: Annotated[
        str | None, typer.Option("--tls-cert", help="Certificate (PEM) that users are shown.")
    ] = None,
    tls_key: Annotated[str | None, typer.Option("--tls-key", help="Its key.")] = None,
    join: Join = None,
    server: Server = None,
    log_level: LogLevel = None,
) -> None:
    """Run a gateway: what users' requests go through."""
    flags = {
        "state_dir": state_dir,
        "listen": listen,
        "workers": workers,
        "endpoints": endpoints,
        "tls": tls,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "control_planes": server or None,
        "log_level": log_level,
    }
    _serve(
        "gateway",
        "llmgw.gateway.config:GatewayServiceConfig",
        "llmgw.gateway.start",
        config,
        flags,
        join=_token(join),
    )


def agent(
    config: Config = None,
    state_dir: StateDir = None,
    node: Annotated[
        str | None, typer.Option("--node", help="Its id; the host name when not given.")
    ] = None,
    join: Join = None,
    server: Server = None,
    log_level: LogLevel = None,
    look: Annotated[
        bool,
        typer.Option(
            "--look", help="Print what the agent of this machine would report, as JSON, and end."
        ),
    ] = False,
) -> None:
    """Run the agent of this node."""
    flags = {
        "state_dir": state_dir,
        "node": node,
        "control_planes": server or None,
        "log_level": log_level,
    }
    module, more = (
        ("llmgw_agent.look", {}) if look else ("llmgw_agent.main", {"join": _token(join)})
    )
    _serve("agent", "llmgw_agent.config:AgentConfig", module, config, flags, **more)


def _serve(
    service: str,
    type_target: str,
    module: str,
    file: Path | None,
    flags: dict[str, Any],
    **more: object,
) -> None:
    module_name, _, type_name = type_target.partition(":")
    type_: type[object] = getattr(importlib.import_module(module_name), type_name)
    path = file or Places.find(service, environ=os.environ, root=os.geteuid() == 0).config
    text = _text(path, required=file is not None)
    written = plain_yaml(text, str(path)) if text is not None else {}
    refuse_cluster_settings(type_, written, str(path), os.environ)
    config = layered(type_, flags=flags, environ=_own(), file=path, file_text=text)
    run = importlib.import_module(module).run
    try:
        code = run(config, **more)
    except LlmgwError:
        raise
    except Exception as error:
        # A service's stderr is its log: the one line that follows is not enough there, but of a
        # full disk it is.
        if not (isinstance(error, OSError) and takes_no_more(error)):
            sys.stderr.write(redact(traceback.format_exc()))
        raise
    sys.exit(code)


def _own() -> dict[str, str]:
    """Return the variables that are this service's; the client's own are no settings of it."""
    return {name: value for name, value in os.environ.items() if name not in _CLIENTS}


_CLIENTS = frozenset(
    {"LLMGW_SERVER", "LLMGW_TOKEN", "LLMGW_TOKEN_FILE", "LLMGW_CONTEXT", "LLMGW_DEBUG", "LLMGW_KEY"}
)


def _text(path: Path, *, required: bool) -> str | None:
    try:
        check_ours(path)
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        if required:
            raise NotFound(f"{path}: no such file") from error
        return None
    except OSError as error:
        raise Unreadable(f"{path}: can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Unreadable(f"{path}: is no text in UTF-8") from error


def _token(join: str | None) -> str | None:
    """Return the one-time token: typed, from standard input, or from LLMGW_JOIN."""
    if join == "-":
        join = sys.stdin.readline().strip()
        if not join:
            raise Usage("--join -: no token on standard input")
    return join or os.environ.pop("LLMGW_JOIN", None)
