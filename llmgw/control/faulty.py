"""A written record that has the right shape and the wrong meaning."""

from llmgw.base.errors import Unreadable
from llmgw.model.record import Problem


class Faulty(Unreadable):
    """Something that a person wrote can't be taken; `problems` says all that is wrong with it.

    Args:
        what: what was written: `model 'm'`, `settings`.
        problems: at least one.
    """

    def __init__(self, what: str, problems: tuple[Problem, ...]) -> None:
        lines = "; ".join(
            f"{problem.path}: {problem.words}" if problem.path else problem.words
            for problem in problems
        )
        super().__init__(f"{what}: {lines}")
        self.problems = problems
