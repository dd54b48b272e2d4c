"""Something that a person wrote, and all that is wrong with it at once."""

from collections.abc import Sequence

from llmgw.base.errors import Unreadable
from llmgw.model.record import Problem

SHOWN = 20
"""Problems that the one line of an error names; `problems` has them all."""


class Faulty(Unreadable):
    """Something that a person wrote can't be taken; `problems` says all that is wrong with it.

    Args:
        what: what was written: `model 'm'`, `settings`, a file.
        problems: at least one.
    """

    def __init__(self, what: str, problems: Sequence[Problem]) -> None:
        lines = [said(one) for one in problems[:SHOWN]]
        more = len(problems) - len(lines)
        words = "; ".join(lines) + (f" and {more} more" if more > 0 else "")
        super().__init__(f"{what}: {words}")
        self.problems = tuple(problems)


def said(problem: Problem) -> str:
    """Return a problem as words: where, and what."""
    return f"{problem.path}: {problem.words}" if problem.path else problem.words
