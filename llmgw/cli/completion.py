"""`llmgw completion SHELL`: prints the script that a shell evaluates."""

from enum import StrEnum
from typing import Annotated

import typer


class Shell(StrEnum):
    """Shells that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(help='For bash: eval "$(llmgw completion bash)"')],
) -> None:
    """Print the completion script of a shell."""
    from typer._completion_shared import get_completion_script

    print(
        get_completion_script(prog_name="llmgw", complete_var="_LLMGW_COMPLETE", shell=shell.value)
    )
