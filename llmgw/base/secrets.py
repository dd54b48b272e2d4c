"""Secrets that do not show themselves, and the one way to hide them in text."""

import re
from typing import Final

HIDDEN: Final = "***"


class Secret:
    """A secret text that `str`, `repr`, format and pickling never show; `reveal()` does."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the secret itself, to hand it to whom it is for."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    def __str__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> str:
        raise TypeError("a Secret is not pickled")


_NAMES = re.compile(
    r"(?:^|_)(?:key|token|secret|password|authorization|cookie|csr)s?(?:$|_pem$|_value$)",
    re.IGNORECASE,
)
_IN_TEXT = re.compile(
    r"(llmgw_[A-Za-z0-9]+_)[A-Za-z0-9_-]{16,}"
    r"|(llmgw1\.[0-9a-f]{64}\.[A-Za-z0-9]+\.)[A-Za-z0-9_-]{8,}"
    r"|((?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}"
    r"|(-----BEGIN [A-Z ]*PRIVATE KEY-----)[^-]+",
    re.IGNORECASE,
)


def redact(text: str) -> str:
    """Return a text with every API key, token, Authorization value and private key hidden."""
    return _IN_TEXT.sub(lambda m: next(g for g in m.groups() if g is not None) + HIDDEN, text)


def hide(name: str, value: object) -> object:
    """Return a value as it may be logged under that name."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if _NAMES.search(name):
        return HIDDEN
    if isinstance(value, str):
        return redact(value)
    return redact(str(value))
