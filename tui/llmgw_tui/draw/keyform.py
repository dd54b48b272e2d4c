"""What is typed to make a key or to change one: read as a request and as the equal command."""

from collections.abc import Mapping
from dataclasses import dataclass
from shlex import quote
from typing import Any, NamedTuple

from llmgw.base.errors import Unreadable
from llmgw.base.units import parse_seconds
from llmgw.model.keys import LIMITS, Key

NEVER = "never"
PRIORITY_MOST = 10


class Field(NamedTuple):
    """One line of a form."""

    name: str
    title: str
    hint: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Read:
    """What a form says: the request's body, the equal command, and what is wrong with it."""

    body: Mapping[str, Any]
    command: str
    problem: str = ""


_TITLES = {
    "requests_per_minute": "requests/min",
    "tokens_per_minute": "tokens/min",
    "tokens_per_day": "tokens/day",
    "concurrent": "at once",
}


def fields(key: Key | None = None) -> tuple[Field, ...]:
    """Return the lines of the form; of a key that is to be changed with what it has."""
    models = "" if key is None or key.models is None else ", ".join(key.models)
    told = {
        limit: "" if key is None or getattr(key, limit) is None else str(getattr(key, limit))
        for limit in LIMITS
    }
    ends = "30d, 12h; empty: never" if key is None else "from now: 30d, never; empty: as it is"
    return (
        Field("name", "name", "whose it is, or what for", "" if key is None else key.name),
        Field("models", "models", "with commas; empty: all", models),
        Field("expires_in", "ends in", ends),
        *(Field(limit, _TITLES[limit], "empty: no limit", told[limit]) for limit in LIMITS),
        Field(
            "priority", "priority", "-10 to 10: higher goes first",
            "0" if key is None else str(key.priority),
        ),
    )  # fmt: skip


def read(values: Mapping[str, str], key: Key | None = None) -> Read:
    """Return what a form says; of a key that is to be changed only what differs."""
    try:
        whole = _whole(values)
    except Unreadable as error:
        return Read({}, _command(key, {}), error.message)
    if key is None:
        body = {name: value for name, value in whole.items() if value not in (None, 0)}
        if not body.get("name"):
            return Read(body, _command(None, body), "name: whose is it?")
        return Read(body, _command(None, body))
    body = {name: value for name, value in whole.items() if value != _has(key, name)}
    if not values.get("expires_in", "").strip():
        body.pop("expires_in", None)
    if not body:
        return Read({}, _command(key, {}), "nothing is changed")
    return Read(body, _command(key, body))


def _whole(values: Mapping[str, str]) -> dict[str, Any]:
    """Return every field's value.

    Raises:
        Unreadable: one can't be read; in words that name it.
    """
    said = {name: text.strip() for name, text in values.items()}
    models = tuple(one.strip() for one in said["models"].split(",") if one.strip())
    whole: dict[str, Any] = {"name": said["name"], "models": list(models) or None}
    whole["expires_in"] = None
    if said["expires_in"] and said["expires_in"] != NEVER:
        try:
            whole["expires_in"] = parse_seconds(said["expires_in"])
        except Unreadable as error:
            raise Unreadable(f"ends in: {error.message}") from error
    for limit in LIMITS:
        whole[limit] = _number(_TITLES[limit], said[limit], 1, 10**12) if said[limit] else None
    text = said["priority"] or "0"
    whole["priority"] = _number("priority", text, -PRIORITY_MOST, PRIORITY_MOST)
    return whole


def _number(title: str, text: str, least: int, most: int) -> int:
    try:
        number = int(text.replace("_", "").replace(",", ""))
    except ValueError:
        raise Unreadable(f"{title}: {text!r} is no number") from None
    if not least <= number <= most:
        raise Unreadable(f"{title}: {number} is not {least} to {most}")
    return number


def _has(key: Key, name: str) -> object:
    if name == "models":
        return None if key.models is None else list(key.models)
    return object() if name == "expires_in" else getattr(key, name)


def _span(seconds: float) -> str:
    """Return a time as the command takes it: `30d`, `90s`."""
    days, rest = divmod(seconds, 86400)
    return f"{days:.0f}d" if days and not rest else f"{seconds:.15g}s"


def _command(key: Key | None, body: Mapping[str, Any]) -> str:
    parts = ["llmgw ctl key"]
    if key is None:
        parts += ["add", quote(str(body.get("name") or "NAME"))]
    else:
        parts += ["edit", quote(key.id)]
        if "name" in body:
            parts += ["--name", quote(str(body["name"]))]
    if "models" in body:
        models = body["models"]
        parts += ["--all-models"] if models is None else [f"--model {quote(m)}" for m in models]
    if "expires_in" in body:
        seconds = body["expires_in"]
        parts += ["--expires", NEVER if seconds is None else _span(seconds)]
    for name in (*LIMITS, "priority"):
        if name in body:
            value = "none" if body[name] is None else body[name]
            parts.append(f"--{name.replace('_', '-')} {value}")
    return " ".join(parts)
