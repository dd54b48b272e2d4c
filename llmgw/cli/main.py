"""The program `llmgw`: finds commands by name, turns errors into one line and an exit code."""

import gc
import os
import sys
from contextlib import suppress
from typing import TextIO

from typer._click.exceptions import ClickException, NoArgsIsHelpError, NoSuchOption, UsageError

from llmgw.base.errors import EXIT_FAILED, EXIT_OK, LlmgwError, Usage
from llmgw.cli.lazy import Entry, lazy_app

START = "Start"
OPERATE = "Operate"
SHELL = "Shell"

ENTRIES = {
    "demo": Entry(
        "llmgw.cli.demo:demo",
        "From nothing to a reply on this machine: control plane, gateway, agent, engine, model.",
        START,
    ),
    "server": Entry("llmgw.cli.services:server", "Run a control plane.", START),
    "gateway": Entry("llmgw.cli.services:gateway", "Run a gateway: what users ask.", START),
    "agent": Entry("llmgw.cli.services:agent", "Run the agent of this node.", START),
    "console": Entry("llmgw.cli.console:console", "Open the full-screen console.", OPERATE),
    "status": Entry(
        "llmgw.cli.ctl.status:status", "Say whether the cluster serves, and what is wrong.", OPERATE
    ),
    "stop": Entry(
        "llmgw.cli.serving:stop", "Stop every model and free all devices; asks first.", OPERATE
    ),
    "start": Entry("llmgw.cli.serving:start", "Serve again after `llmgw stop`.", OPERATE),
    "simulate": Entry(
        "llmgw.cli.simulate:simulate",
        "Say what happens to this fleet when nodes go; change nothing.",
        OPERATE,
    ),
    "ctl": Entry(
        "llmgw.cli.ctl.group:app", "See and change the cluster, one command each.", OPERATE
    ),
    "context": Entry("llmgw.cli.context:app", "Choose which cluster commands speak to.", OPERATE),
    "parse": Entry(
        "llmgw.cli.parse:parse", "Print what an agent reads from a tool's output.", OPERATE
    ),
    "observability": Entry(
        "llmgw.cli.observability:app", "Dashboards and alerts for Prometheus and Grafana.", OPERATE
    ),
    "completion": Entry(
        "llmgw.cli.completion:completion", "Print the completion script of a shell.", SHELL
    ),
    "version": Entry("llmgw.cli.version:version", "Print the version.", SHELL),
}

HELP = """Run LLM inference on a fleet of GPU and CPU machines, from the terminal.

Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 refused, 5 unreachable, 6 timed out,
7 partly done, 75 restart wanted. `--debug` before a command shows the whole error.
"""

app = lazy_app(ENTRIES, HELP)


def main() -> None:
    """Run the command that the arguments name, and exit with its code."""
    # Typer stays to the end: looking for garbage in it, at exit above all, costs a bare start.
    gc.freeze()
    debug = "--debug" in sys.argv or bool(os.environ.get("LLMGW_DEBUG"))
    if "--debug" in sys.argv:
        sys.argv.remove("--debug")
        os.environ["LLMGW_DEBUG"] = "1"
    try:
        sys.exit(_run())
    except NoArgsIsHelpError as error:
        with suppress(OSError):
            error.show()
        sys.exit(error.exit_code)
    except ClickException as error:
        sys.exit(report(misused(error)))
    except LlmgwError as error:
        if debug:
            raise
        sys.exit(report(error))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader (head, less) has seen enough; nothing is left to write to.
        _write_no_more()
        sys.exit(EXIT_FAILED)
    except Exception as error:
        _write_no_more()
        if debug:
            raise
        sys.exit(report(unforeseen(error)))


def report(error: LlmgwError) -> int:
    """Write an error as one line, and its hint as another; return the exit code."""
    from llmgw.cli.output import note

    with suppress(OSError):  # nobody can be told: the exit code is
        note(f"llmgw: {error.message}")
        if error.hint:
            note(f"  {error.hint}")
    return error.exit_code


def unforeseen(error: Exception) -> LlmgwError:
    """Return what no command foresaw as an error like all others: a full disk is no fault of ours.

    What a device or a disk does not take comes up wherever something is written, to standard
    output above all.
    """
    from llmgw.base.limits import system_words, takes_no_more

    if isinstance(error, OSError) and takes_no_more(error):
        return LlmgwError(f"can't be written: {system_words(error)}")
    words = f"unexpected {type(error).__name__}: {error}"
    return LlmgwError(words, hint="--debug shows the whole error; please report it")


def _run() -> str | int | None:
    """Run the command and return its exit code, once everything that it printed is written.

    Not later: of what can't be written while the interpreter ends nobody is told in words.
    """
    try:
        code = app(standalone_mode=False)
    except SystemExit as end:
        _flush()
        return end.code
    _flush()
    return code if isinstance(code, int) else EXIT_OK


def _flush() -> None:
    out: TextIO | None = sys.stdout  # None where the shell closed it
    if out is not None:
        out.flush()


def _write_no_more() -> None:
    """Let what waits to be written to a standard output that takes nothing go nowhere."""
    try:
        _flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def misused(error: ClickException) -> Usage:
    """Return what is wrong with a command line as an error like all others."""
    words = error.message if isinstance(error, NoSuchOption) else error.format_message()
    words = " ".join((words[:1].lower() + words[1:]).split()).removesuffix(".")
    path = error.ctx.command_path if isinstance(error, UsageError) and error.ctx else "llmgw"
    hint = f"`{path} --help` tells how it is written"
    if isinstance(error, NoSuchOption) and error.possibilities:
        hint = f"did you mean {' or '.join(sorted(error.possibilities))}? {hint}"
    return Usage(words, hint=hint)


if __name__ == "__main__":
    main()
