"""What msgspec says of a value that does not fit, in words for people."""

import re

import msgspec

_BOUND = re.compile(
    r"Expected `(?P<type>\w+)` (?P<length>of length )?(?P<sign><=|>=|<|>) (?P<to>[-+.e\d]+)"
)
"""How msgspec says that a value is out of its bounds."""
_TYPE = re.compile(r"Expected `(?P<wanted>[\w |]+)`, got `(?P<got>\w+)`")
_SIGNS = {"<=": "at most", ">=": "at least", "<": "less than", ">": "more than"}
_AT = re.compile(r"^(?P<words>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "empty",
    "date": "a date",
    "datetime": "a date",
}


def said_of(error: msgspec.ValidationError) -> str:
    """Return what is wrong with a value, behind its path: `name: has more than 253 characters`."""
    path, words = at_its_path(error)
    return f"{path}: {words}" if path else words


def at_its_path(error: msgspec.ValidationError) -> tuple[str, str]:
    """Return the path within the value, empty for the whole, and what is wrong there."""
    found = _AT.match(str(error))
    words = found["words"] if found else str(error)
    path = (found["path"] if found and found["path"] else "").removeprefix("$").removeprefix(".")
    return path, bound_words(_type_words(words))


def bound_words(words: str) -> str:
    """Return in plain words that a value is out of its bounds; anything else as it is."""
    bound = _BOUND.fullmatch(words)
    if bound is None:
        return words
    sign, to = bound["sign"], bound["to"]
    if bound["length"] is None:
        return f"must be {_SIGNS[sign]} {float(to):.16g}"
    what = {"str": "characters", "bytes": "bytes"}.get(bound["type"], "items")
    if sign == "<=":
        return f"has more than {to} {what}"
    return "must not be empty" if to == "1" else f"has fewer than {to} {what}"


def _type_words(words: str) -> str:
    """Return in plain words that a value is of another type; anything else as it is."""
    told = _TYPE.fullmatch(words)
    if told is None:
        return words
    wanted = [_TYPES.get(one.strip(), f"`{one.strip()}`") for one in told["wanted"].split("|")]
    return f"must be {' or '.join(wanted)}, is {_TYPES.get(told['got'], told['got'])}"
