"""`llmgw ctl model plan`: what serving a model would take, before anything is changed."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from llmgw.base.errors import PartlyDone, Unreadable
from llmgw.base.units import show_bytes
from llmgw.cli import session, show
from llmgw.cli.options import Format, Output
from llmgw.cli.output import ABSENT, note, print_data, say
from llmgw.model.catalog import CatalogEntry, Model

What = Annotated[
    str, typer.Argument(metavar="MODEL|FILE", help="A model of the catalog, a file, or -.")
]


def plan(what: What, output: Output = Format.TABLE) -> None:
    """Say where each replica would go, what gives way, and what is short; change nothing."""
    body = msgspec.to_builtins(_model(what))
    answer: dict[str, Any] = session.connect().post("/plan/model", body)
    if output in (Format.JSON, Format.YAML):
        print_data(answer, output)
    else:
        for line in lines(answer):
            say(line)
        for profile in answer["profiles"]:
            for words in profile["warnings"]:
                note(f"{answer['model']} ({profile['profile']}): {words}")
    if problems := answer["problems"]:
        for problem in problems:
            note(f"{answer['model']}: {problem['path']}: {problem['words']}")
        raise Unreadable(f"{answer['model']}: {show.count(len(problems), 'problem')}, not planned")
    if not answer["fits"]:
        raise PartlyDone(f"{answer['model']}: not all that is wanted can be placed")


def lines(answer: dict[str, Any]) -> list[str]:
    """Return what a person reads of a plan, a line a fact."""
    found = [f"{answer['model']}: {answer['words']}"]
    for one in answer["starts"]:
        where = " and ".join(_seat(shard) for shard in one["shards"])
        found.append(f"  start on {where}: {one['words']}")
    found += _given_up(answer)
    request = answer.get("first_request")  # of a newer control plane
    if request is not None:
        found += _first_request(request)
    found += [line for profile in answer["profiles"] for line in _profile(profile)]
    takes = answer if request is None else request
    if answer["problems"] or not (answer["weights_on"] or takes["download_bytes"] != 0):
        return found  # nothing was planned, or it has no weights
    weights = show_bytes(answer["weights_bytes"])
    held = ", ".join(answer["weights_on"]) or "no node"
    found.append(f"  weights {weights}, held by {held}; to fetch {_fetch(takes)}")
    return found


def _given_up(takes: dict[str, Any]) -> list[str]:
    return [f"  {one['kind']} {one['replica']}: {one['words']}" for one in takes["gives_up"]]


def _first_request(request: dict[str, Any]) -> list[str]:
    """Return what the first request takes of a model that has no replica until it comes."""
    found = ["  when the first request comes:"]
    for one in request["starts"]:
        where = " and ".join(_seat(shard) for shard in one["shards"])
        found.append(f"    start {one['profile']} on {where}: {one['words']}")
    found += [f"  {line}" for line in _given_up(request)]
    found += [f"  {line}" for one in request["refusals"] for line in _refused(one)]
    return found


def _seat(shard: dict[str, Any]) -> str:
    devices = " ".join(shard["devices"]) or "CPU"
    rate = shard["tokens_per_second"]
    speed = "" if rate is None else f", about {rate:.1f} tokens/s a request"
    return f"{shard['node']} [{devices}]{speed}"


def _profile(profile: dict[str, Any]) -> list[str]:
    need, name = profile["need"], profile["profile"]
    found = [f"  {name}: {profile['wanted']} wanted, {profile['there']} there; {_need(need)}"]
    if rests := profile.get("rests"):
        found.append(f"  {name}: {rests}")
    if (refusal := profile["refusal"]) is not None:
        found += _refused(refusal)
    return found


def _refused(refusal: dict[str, Any]) -> list[str]:
    verdicts = [candidate["verdict"] for candidate in refusal["candidates"]]
    words = f" {refusal['words']}" if not verdicts else ""
    kinds = [f"    {one['kind'].replace('_', ' ')}: {one['words']}" for one in verdicts]
    return [f"  {refusal['profile']}: can't be placed:{words}", *kinds]


def _need(need: dict[str, Any]) -> str:
    if need["total_bytes"] is None:
        return f"memory not known: {'; '.join(need['unknown']) or ABSENT}"
    parts = f"weights {show_bytes(need['weights_bytes'])}, "
    parts += f"cache {show_bytes(need['cache_bytes'])} for {need['concurrency']} x "
    parts += f"{show.count(need['context'], 'token')}, to compute "
    parts += show_bytes(need["compute_bytes"])
    if need["per_device_bytes"] is None:
        return f"about {show_bytes(need['total_bytes'])} of host memory ({parts})"
    each = show_bytes(need["per_device_bytes"])
    devices = need["devices"]
    where = "its device" if devices == 1 else f"each of {devices} devices"
    return f"about {each} on {where} ({parts})"


def _fetch(answer: dict[str, Any]) -> str:
    size = answer["download_bytes"]
    return "an unknown amount" if size is None else show_bytes(size) if size else "nothing"


def _model(what: str) -> Model:
    if what != "-" and not Path(what).is_file():
        return session.get(f"/models/{what}", CatalogEntry).model
    from llmgw.cli.modelfile import read_file

    return read_file(what)
