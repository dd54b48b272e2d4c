"""The console in real pseudo-terminals: what it refuses, how it ends, what it sends."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmgw_tui.themes.palette import PALETTES
from tests.fakes.console_main import SECRET
from tests.flow.tui.terminals import ROOT, Terminal, console

COLOUR = re.compile(rb"\x1b\[[0-9;]*m")


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    with Terminal(console("mixed", "--still")) as opened:
        opened.wait_text("live", "Models")
        opened.settle()
        yield opened


def _run(environ: dict[str, str], **streams: int) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(str(ROOT / part) for part in ("", "agent", "tui", "proto"))
    return subprocess.run(
        console("mixed"),
        env={"PATH": os.environ["PATH"], "PYTHONPATH": paths, **environ},
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        text=True,
        capture_output=True,
        timeout=30,
        check=False,
    )


def test_without_a_terminal_it_says_so_in_one_line_and_ends_with_2() -> None:
    done = _run({"TERM": "xterm-256color"})
    assert done.returncode == 2
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[0] == "llmgw: llmgw console needs a terminal, and stdin is none"
    assert "llmgw ctl nodes --watch" in lines[1]
    assert len(lines) == 2


def test_a_dumb_terminal_is_refused_with_2_and_left_alone() -> None:
    with Terminal(console("mixed"), environ={"TERM": "dumb"}) as opened:
        assert opened.exit_code() == 2
        assert b"\x1b" not in bytes(opened.output)
        assert "'dumb'" in opened.text()


def test_an_unknown_theme_is_refused_with_the_known_ones() -> None:
    with Terminal(console("mixed", "--theme", "purple")) as opened:
        assert opened.exit_code() == 2
        assert "dark, light, contrast" in opened.text()


def test_q_leaves_the_terminal_as_it_was(terminal: Terminal) -> None:
    terminal.send("q")
    assert terminal.exit_code() == 0
    assert terminal.restored()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_restore_the_terminal_and_are_told_by_the_exit_code(
    terminal: Terminal, number: signal.Signals, code: int
) -> None:
    os.kill(terminal.pid, number)
    assert terminal.exit_code() == code
    assert terminal.restored()


def test_a_signal_during_start_restores_the_terminal_too() -> None:
    with Terminal(console("mixed")) as opened:
        opened.wait_for(lambda: b"llmgw console" in opened.output)
        os.kill(opened.pid, signal.SIGTERM)
        assert opened.exit_code() == 143
        assert opened.restored()


def test_a_terminal_that_is_closed_ends_it() -> None:
    with Terminal(console("mixed", "--churn", "8")) as opened:
        opened.wait_text("live", "Models")
        opened.hang_up()
        assert opened.exit_code() == 129


def test_a_crash_is_one_line_without_variables_and_restores_the_terminal(
    terminal: Terminal,
) -> None:
    os.kill(terminal.pid, signal.SIGUSR2)
    assert terminal.exit_code() == 1
    assert terminal.restored()
    assert "the console ended by an error of its own: RuntimeError (console_main.py:" in (
        terminal.text().replace("\n", "")
    )
    assert SECRET.encode() not in bytes(terminal.output)
    assert b"Traceback" not in bytes(terminal.output)


def test_with_debug_a_crash_shows_where_and_still_no_variables() -> None:
    with Terminal(console("mixed"), environ={"LLMGW_DEBUG": "1"}) as opened:
        opened.wait_text("live")
        os.kill(opened.pid, signal.SIGUSR2)
        assert opened.exit_code() == 1
        assert b"Traceback" in bytes(opened.output)
        assert SECRET.encode() not in bytes(opened.output)


def test_at_rest_nothing_is_sent(terminal: Terminal) -> None:
    for key in ("1", "2", "3", "4", "\r"):
        terminal.send(key)
        terminal.settle()
        assert terminal.read(1.0) == 0, key


def test_under_a_dialog_nothing_is_sent_while_the_fleet_changes() -> None:
    with Terminal(console("mixed", "--churn", "20", "--every", "0.05")) as opened:
        opened.wait_text("live", "Models")
        opened.send("2")
        opened.wait_text("NODE")
        opened.send(":")
        opened.wait_text("Command", "overview")
        opened.read(0.3)
        assert opened.read(1.0) == 0
        opened.send("\x1b")
        opened.wait_for(lambda: "Command" not in opened.text())


def test_moving_the_cursor_sends_two_lines(terminal: Terminal) -> None:
    terminal.send("2")
    terminal.wait_text("NODE")
    terminal.settle()
    before = len(terminal.output)
    terminal.send("j")
    terminal.wait_text("2/40")
    terminal.settle()
    assert len(terminal.output) - before <= 800


def test_a_dialog_costs_less_than_two_screens(terminal: Terminal) -> None:
    before = len(terminal.output)
    terminal.send("?")
    terminal.wait_text("Everywhere")
    terminal.settle()
    assert len(terminal.output) - before <= 16_000


def test_no_color_sends_no_colour_and_states_are_still_told_apart() -> None:
    with Terminal(console("mixed"), environ={"NO_COLOR": "1"}) as opened:
        opened.wait_text("live", "Models")
        for key in ("2", "3", "4", "?"):
            opened.send(key)
            opened.settle()
        allowed = {b"0", b"1", b"2", b"4", b"7", b"39", b"49", b""}
        sent = {code for m in COLOUR.findall(bytes(opened.output)) for code in m[2:-1].split(b";")}
        assert sent <= allowed
        opened.send("\x1b")
        opened.wait_for(lambda: "Everywhere" not in opened.text())
        opened.send("2")
        opened.wait_text("▲ degraded", "✖ lost", "○ ready", "● serving", "◐ starting")


@pytest.mark.parametrize("term", ["xterm", "linux"])
def test_terminals_of_16_colours_get_their_own_colours(term: str) -> None:
    with Terminal(console("mixed"), environ={"TERM": term, "COLORTERM": ""}) as opened:
        opened.wait_text("live", "Models")
        opened.send("2")
        opened.settle()
        assert b"38;2;" not in opened.output
        assert b"38;5;" not in opened.output
        assert ("▲ degraded" in opened.text()) == (term == "xterm")
        assert ("! degraded" in opened.text()) == (term == "linux")


def test_terminals_of_256_colours_are_not_sent_true_colours() -> None:
    with Terminal(console("mixed"), environ={"COLORTERM": ""}) as opened:
        opened.wait_text("live", "Models")
        opened.settle()
        assert b"38;2;" not in opened.output
        assert b"38;5;" in opened.output


def test_a_language_without_utf_8_is_drawn_in_ascii() -> None:
    with Terminal(console("mixed"), environ={"LANG": "C"}) as opened:
        opened.wait_text("live", "Models")
        assert opened.text().isascii()


def test_the_mouse_is_asked_for_clicks_alone_and_can_be_left_to_the_terminal() -> None:
    with Terminal(console("mixed")) as opened:
        opened.wait_text("live")
        assert b"\x1b[?1000h" in opened.output
        assert b"\x1b[?1003h" not in opened.output
    with Terminal(console("mixed", "--no-mouse")) as opened:
        opened.wait_text("live")
        assert b"\x1b[?1000h" not in opened.output


def test_a_resize_reaches_it(terminal: Terminal) -> None:
    terminal.resize(120, 40)
    terminal.wait_text("1 Overview", "╭─ Overview")
    terminal.resize(38, 9)
    terminal.wait_text("needs 40x10")


def test_the_shortened_repaint_draws_the_same_screens() -> None:
    """What the patched and the stock repaint leave on the screen must not differ in any cell."""
    keys = (
        "2",
        "jjj",
        "G",
        "gg",
        ":gpu-0",
        "\x1b",
        "/cpu-0\r",
        "s",
        "\r",
        "\x1b",
        "?",
        "\x1b",
        "1",
    )
    screens: list[list[object]] = []
    sizes: list[int] = []
    for patch in ("1", "0"):
        environ = {"LLMGW_TUI_PATCH": patch}
        with Terminal(console("mixed", "--still"), environ=environ) as opened:
            opened.wait_text("live", "Models")
            opened.settle()
            shots: list[object] = []
            for key in keys:
                opened.send(key)
                opened.settle(0.3)
                shots.append(_cells(opened))
            screens.append(shots)
            sizes.append(len(opened.output))
    assert screens[0] == screens[1]
    assert sizes[0] < sizes[1] * 0.75


def _cells(opened: Terminal) -> list[tuple[object, ...]]:
    """Return every cell with its colours; of a blank only what can be seen: its ground."""
    found: list[tuple[object, ...]] = []
    for y in range(opened.screen.lines - 1):
        row = opened.screen.buffer[y]
        for x in range(opened.screen.columns):
            cell = row[x]
            ink = (cell.fg, cell.bold) if cell.data != " " else ()
            found.append((y, x, cell.data, cell.bg, cell.reverse, cell.underscore, *ink))
    return found


def test_the_door_loads_nothing_heavy() -> None:
    code = (
        "import sys, llmgw_tui.launch;"
        "print([m for m in ('textual','rich','httpx','msgspec','asyncio') if m in sys.modules])"
    )
    paths = os.pathsep.join(str(ROOT / part) for part in ("", "tui"))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_themes_that_can_be_asked_for_are_those_there_are() -> None:
    from llmgw_tui.terminal import THEMES

    assert set(THEMES) == set(PALETTES)
    assert Path(ROOT, "tui", "llmgw_tui", "console.tcss").is_file()
