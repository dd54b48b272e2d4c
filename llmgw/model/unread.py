"""What stands for a value that could not be read, so that all others are judged all the same.

A model with a mistyped number is still checked for everything else. The number's field holds
`UNREAD`; a rule that looks at it ends there, and says nothing that would depend on it.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import NoReturn

from llmgw.model.record import Problem


class NotRead(Exception):
    """A rule looked at a value that could not be read."""


class Unread:
    """A value that could not be read. It may be handed on; whoever looks at it ends by `NotRead`.

    Only whether it `is` another value, and its class, can be asked.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> NoReturn:
        raise NotRead(name)


def _looked_at(*_: object) -> NoReturn:
    raise NotRead


for _way in (
    *("bool", "len", "iter", "next", "contains", "getitem", "hash", "str", "repr", "format"),
    *("eq", "ne", "lt", "le", "gt", "ge", "int", "float", "index", "neg", "abs", "round"),
    *("add", "radd", "sub", "rsub", "mul", "rmul", "mod", "rmod", "and", "rand", "or", "ror"),
    *("truediv", "rtruediv", "floordiv", "rfloordiv", "pow", "rpow", "divmod", "rdivmod"),
):
    setattr(Unread, f"__{_way}__", _looked_at)

UNREAD = Unread()


def each(*rules: Iterator[Problem]) -> Iterator[Problem]:
    """Yield what each rule says, as far as it gets without what could not be read."""
    for rule in rules:
        with suppress(NotRead):
            yield from rule
