"""`llmgw ctl status`: is it serving, and what is wrong."""

from typing import Any

from llmgw.base.errors import Usage
from llmgw.base.units import show_seconds
from llmgw.cli import session, show
from llmgw.cli.options import Format, Output, Watch
from llmgw.cli.output import fields, print_data, printable, say
from llmgw.client.interface import Decoded


def status(output: Output = Format.TABLE, watch: Watch = False) -> None:
    """Say whether the cluster serves, and what is wrong."""
    if watch:
        from llmgw.cli.watching import follow

        if output is Format.JSON:
            raise Usage(
                "--watch prints no status as json",
                hint="nodes, replicas and models can be followed",
            )

        follow(
            ("nodes", "replicas", "models", "settings"),
            lambda _: lines(session.connect().get("/status")),
            output,
        )
        return
    answer: dict[str, Any] = session.connect().get("/status")
    if output in (Format.JSON, Format.YAML):
        print_data(answer, output)
    elif output is Format.NAME:
        say(answer["cluster"])
    else:
        for line in lines(answer):
            print(line)


def lines(status_: dict[str, Any]) -> list[str]:
    """Return the status as lines for a person."""
    found = fields(
        [
            ("cluster", str(status_["cluster"])),
            ("control plane", _server(status_)),
            ("serving", _serving(status_)),
            ("nodes", _counts(status_["nodes"])),
            ("devices", _devices(status_.get("devices") or {})),
            ("replicas", _counts(status_["replicas"])),
            ("gateways", _gateways(status_["gateways"])),
            ("endpoints", _static(status_.get("static_endpoints") or {})),
        ]
    )
    models = status_["models"]
    if models:
        found.append("")
        found += fields([(one["name"], _ready(one)) for one in models])
    if problems := status_["problems"]:
        found.append("")
        found += [printable(f"! {_problem(one)}") for one in problems]
    return found


def _ready(model: dict[str, Any]) -> str:
    words = "; ".join(filter(None, (model.get("reason"), model.get("note"))))
    return f"{model['ready']} of {model['wanted']} ready" + (f"  {words}" if words else "")


def _serving(status_: dict[str, Any]) -> str:
    """Return whether users get replies: through a gateway, from replicas that are ready."""
    if status_.get("stopped"):
        return "no: stopped; `llmgw start` starts it"
    if not any(gateway["connected"] for gateway in status_["gateways"]):
        return "no: no gateway is connected"
    wanted = [model for model in status_["models"] if model["wanted"]]
    if not wanted:
        return "nothing: no model is wanted"
    ready = sum(model["ready"] > 0 for model in wanted)
    return f"{'yes' if ready else 'no'}: {ready} of {show.count(len(wanted), 'model')} can answer"


def _server(status_: dict[str, Any]) -> str:
    role = "leader" if status_.get("leader") else "standby"
    words = f"{status_['server']}, {role}, version {status_['version']}, term {status_['term']}"
    if (started := status_.get("started")) is not None:
        words += f", up {show_seconds(max(0.0, session.now() - started))}"
    return words


def _counts(counts: dict[str, int]) -> str:
    said = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    return said or "none"


def _devices(classes: dict[str, dict[str, int]]) -> str:
    """Return `8 h100-80g: 6 held, 2 free`; empty, which is not shown, where there are none."""
    return "; ".join(
        f"{sum(counts.values())} {name}: {_counts(counts)}" for name, counts in classes.items()
    )


def _gateways(gateways: list[dict[str, Any]]) -> str:
    return (
        ", ".join(
            f"{g['id']} {g.get('url') or ''} {'connected' if g['connected'] else 'away'}".strip()
            for g in gateways
        )
        or "none"
    )


def _static(endpoints: dict[str, int]) -> str:
    """Return how many endpoints have no agent; empty, which is not shown, where there are none."""
    if not endpoints:
        return ""
    of_each = ", ".join(f"{count} of {model}" for model, count in endpoints.items())
    return f"{show.count(sum(endpoints.values()), 'static endpoint')} without agents: {of_each}"


def _problem(one: Decoded) -> str:
    if isinstance(one, dict):
        return f"{one.get('subject', '')}: {one.get('words', '')}"
    return str(one)
