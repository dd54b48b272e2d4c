"""Asking NVML: a question that a driver or card does not answer costs its own field."""

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, TypeVar

from llmgw_agent.parse import plausible
from llmgw_agent.parse.cards import LOST, RESET_REQUIRED

T = TypeVar("T")

_NONE = 0xFFFF_FFFF
"""All bits set: what stands for no number in NVML."""


class Asking:
    """NVML's functions by name, asked about one card after the other.

    Args:
        library: the `pynvml` module. What a driver of another age does not know is missing in it,
            or raises its error.
    """

    def __init__(self, library: ModuleType) -> None:
        self.nvml: Any = library
        # pynvml raises the other one where a function's newest form is not in the driver's library.
        self._mismatch: type[Exception] = getattr(library, "NVMLLibraryMismatchError", TypeError)
        self.trouble: str | None = None
        """Why the card that is asked about can't be used, as its answers tell; reset by the asker.

        A card that falls off the bus keeps its handle and UUID: only its readings say so.
        """

    def ask(self, name: str, *arguments: object, to: Callable[[Any], T]) -> T | None:
        """Return a function's answer, converted; None when this driver or card has none."""
        try:
            return to(getattr(self.nvml, name)(*arguments))
        except self.nvml.NVMLError as error:
            self._note(error)
        except (self._mismatch, AttributeError, TypeError, ValueError, OverflowError):
            pass
        return None

    def first(self, names: Iterable[str], *arguments: object, to: Callable[[Any], T]) -> T | None:
        """Return the first of several functions' answers: newer drivers drop, older ones lack."""
        answers = (self.ask(name, *arguments, to=to) for name in names)
        return next((answer for answer in answers if answer is not None), None)

    def constant(self, name: str) -> int | None:
        """Return a constant of the library; None where it does not know it."""
        value = getattr(self.nvml, name, None)
        return value if isinstance(value, int) else None

    def _note(self, error: Any) -> None:  # noqa: ANN401 (a class of the library)
        code = getattr(error, "value", None)
        if code is None:
            return
        if code == self.constant("NVML_ERROR_GPU_IS_LOST"):
            self.trouble = LOST
        elif code == self.constant("NVML_ERROR_RESET_REQUIRED"):
            self.trouble = RESET_REQUIRED


def text(value: str | bytes) -> str:
    """Return a text, which older versions of the library give as bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def itself(value: Any) -> Any:  # noqa: ANN401 (a struct of the library)
    """Return what was given."""
    return value


def done(_: object) -> bool:
    """Return that there was an answer, whatever it was."""
    return True


def count(value: int) -> int:
    """Return a whole number of 0 or more.

    Raises:
        ValueError: it stands for none.
    """
    number = int(value)
    if not 0 <= number < _NONE:
        raise ValueError(f"{number} is no count")
    return number


def errors(value: int) -> int | None:
    """Return a count of 64 bits; None for what stands for none."""
    return plausible.count(int(value))


def watts(milliwatts: float) -> float | None:
    """Return watts; None for what nothing draws."""
    return plausible.watts(float(milliwatts) / 1000)


def fan(value: float) -> float | None:
    """Return a fan's speed in percent, which may be above 100."""
    return plausible.fan(float(value))


def share(value: float) -> float | None:
    """Return a share, 0 to 100; None for what is none."""
    return plausible.percent(float(value))
