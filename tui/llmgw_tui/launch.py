"""The console's door: checks the terminal, shows something at once, loads the rest, ends in order.

Nothing heavy is imported at the top: what is refused is refused without loading Textual.
"""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, MutableMapping
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from llmgw.base.errors import EXIT_FAILED, LlmgwError, Usage
from llmgw_tui import terminal

if TYPE_CHECKING:
    from llmgw.base.clock import Clock
    from llmgw_tui.app import ConsoleApp
    from llmgw_tui.store.watch import ConsoleClient

ENTER, LEAVE = "\x1b[?1049h\x1b[2J\x1b[?25l", "\x1b[2J\x1b[?25h\x1b[?1049l"
"""The alternate screen, and back."""
RESTORE = "\x1b[2J\x1b[?1000l\x1b[?1006l\x1b[?2004l\x1b[?1004l\x1b[<u\x1b[?7h\x1b[?25h\x1b[?1049l"
"""Everything that the console may have switched on, off: for the case that leaving hangs."""
PATIENCE = 3.0
"""Seconds that leaving may take after a signal."""
SLOW_FLUSH = 1.0


class Options(NamedTuple):
    """What a person asked for on the command line.

    `context`, `server` and `token_file` name the control plane as everywhere else.
    """

    context: str | None = None
    server: str | None = None
    token_file: str | None = None
    readonly: bool = False
    theme: str | None = None
    ascii: bool = False
    slow: bool = False
    mouse: bool = True
    debug: bool = False


class Connected(NamedTuple):
    """A client, and what its cluster is called until it says so itself."""

    client: "ConsoleClient"
    name: str
    clock: "Clock | None" = None
    """What ages are told by; None: the machine's own."""


Connect = Callable[[Options, MutableMapping[str, str]], Connected]


class Ended(BaseException):
    """A signal came before the console ran."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def run(
    options: Options,
    *,
    connect: Connect | None = None,
    environ: MutableMapping[str, str] = os.environ,
) -> int:
    """Run the console until it is left; return the exit code: 0, or 128 + a signal's number.

    Args:
        options: what was asked for.
        connect: makes the client; None: as the options and the environment say.
        environ: read once, here; `TEXTUAL_*` that the options imply are set in it.
    """
    try:
        check_terminal(environ)
        if options.theme not in {None, *terminal.THEMES}:
            known = ", ".join(terminal.THEMES)
            raise Usage(f"there is no theme {options.theme!r}", hint=f"themes: {known}")
        return _run_in_terminal(options, connect or _connect, environ)
    except LlmgwError as error:
        return _complain(error.message, error.hint, error.exit_code)


def check_terminal(environ: Mapping[str, str] = os.environ) -> None:
    """Make sure that the console could run here.

    Raises:
        Usage: a standard stream is no terminal, or one that nothing can be drawn on.
    """
    ttys = {name: _is_terminal(name) for name in ("stdin", "stdout", "stderr")}
    refused = terminal.refusal(environ, ttys)
    if refused is not None:
        raise Usage(refused[0], hint=refused[1])


def _run_in_terminal(options: Options, connect: Connect, environ: MutableMapping[str, str]) -> int:
    """Show the splash, load, run; the alternate screen is left whatever happens."""
    before = {name: signal.signal(name, _end) for name in (signal.SIGTERM, signal.SIGHUP)}
    started = False
    try:
        _write(ENTER + _splash())
        connected = connect(options, environ)
        app = _load(options, connected, environ)
        started = True
        app.run(mouse=options.mouse)
    except Ended as ended:
        return ended.code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        if not started:
            _write(LEAVE)
        for name, handler in before.items():
            signal.signal(name, handler)
    if app.return_code == 128 + signal.SIGHUP:
        _let_go()
    if app.crash is not None:
        return _crashed(app.crash, debug=options.debug or bool(environ.get("LLMGW_DEBUG")))
    return app.return_code or 0


def _load(
    options: Options, connected: Connected, environ: MutableMapping[str, str]
) -> "ConsoleApp":
    """Import what draws, and return the app, ready to run."""
    environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    if options.slow:
        environ.setdefault("TEXTUAL_FPS", "10")
    from datetime import UTC, datetime

    from llmgw.base.clock import SystemClock
    from llmgw_tui.app import ConsoleApp
    from llmgw_tui.compat import repaint
    from llmgw_tui.console import FLUSH, Look

    repaint.install(environ)
    clock = connected.clock or SystemClock()
    found = terminal.abilities(
        environ, theme=options.theme, ascii_only=options.ascii, slow=options.slow
    )
    look = Look(
        palette=found.palette,
        ascii_only=found.ascii_only,
        readonly=options.readonly,
        flush=SLOW_FLUSH if options.slow else FLUSH,
        zone=datetime.fromtimestamp(clock.now(), UTC).astimezone().tzinfo or UTC,
        name=connected.name,
        context=options.context or "",
    )
    return ConsoleApp(connected.client, clock, look, hard_exit=_end_later)


def _connect(options: Options, environ: MutableMapping[str, str]) -> Connected:
    """Return a client of the control plane that the options and the environment name."""
    import random

    from llmgw.base.clock import SystemClock
    from llmgw.client import contexts
    from llmgw.client.asyncclient import AsyncClient

    context = contexts.choose(
        environ, context=options.context, server=options.server, token_file=options.token_file
    )
    client = AsyncClient(context, clock=SystemClock(), rng=random.Random())
    return Connected(client, context.name or "")


def _is_terminal(name: str) -> bool:
    stream = getattr(sys, f"__{name}__")
    try:
        return stream is not None and bool(stream.isatty())
    except ValueError:
        return False


def _splash() -> str:
    """Return the first thing that shows: one line in the middle."""
    size = os.get_terminal_size(2)
    words = "llmgw console"
    row, column = max(1, size.lines // 2), max(1, (size.columns - len(words)) // 2)
    return f"\x1b[{row};{column}H\x1b[1m{words}\x1b[0m"


def _write(text: str) -> None:
    """Write to the terminal that the console draws on; one that is gone takes nothing."""
    try:
        os.write(2, text.encode())
    except OSError:
        return


def _let_go() -> None:
    """Turn away from a terminal that was closed, or Python ends with a code of its own (120)."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nothing, stream)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    del frame
    raise Ended(128 + number)


def _end_later(code: int) -> None:
    """End the process if leaving takes too long: a terminal that is gone may hold a thread."""
    if code < 128:
        return

    def end() -> None:
        _write(RESTORE)
        os._exit(code)

    timer = threading.Timer(PATIENCE, end)
    timer.daemon = True
    timer.start()


def _complain(message: str, hint: str | None, code: int) -> int:
    print(f"llmgw: {message}", file=sys.stderr)
    if hint:
        print(f"  {hint}", file=sys.stderr)
    return code


def _crashed(error: BaseException, *, debug: bool) -> int:
    """Say in one line what went wrong and where; variables are never shown: some are secret."""
    if debug:
        traceback.print_exception(error)
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""  # noqa: PTH119
    return _complain(
        f"the console ended by an error of its own: {type(error).__name__}{where}",
        None if debug else "`LLMGW_DEBUG=1 llmgw console` shows where; please report it",
        EXIT_FAILED,
    )
