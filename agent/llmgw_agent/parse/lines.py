"""Lines of a text as tools write them."""


def lines_of(text: str) -> list[str]:
    r"""Return the lines, without their ends: `\n`, or `\r\n`.

    `str.splitlines` ends lines at a dozen other characters as well. A name that somebody chose may
    hold such a one, of a card, a process or a directory, and what follows would pass for a line.
    """
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]
