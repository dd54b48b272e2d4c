"""Texts made of recorded ones: everything that a broken tool, pipe or disk could make of them."""

import random
import re
from collections.abc import Callable

NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")
ABSENT = ("N/A", "[N/A]", "Not Supported", "[Not Supported]", "Unknown Error", "ERR!", "")
ODD = (
    *("-1", "nan", "inf", "-inf", "1e400", "0x", "00", "1" * 40, "9223372036854775808", "1,5"),
    *("\x00", "\x1b[31m", "\ud7ff", "٣", "½", "²", "🜁", "%s", "{}", "<x>", "&amp;", '"', "'"),
)
MOST = 1 << 20
"""Characters beyond which a text is not made longer."""

Mutation = Callable[[str, random.Random, tuple[str, ...]], str]


def mutated(texts: tuple[str, ...], text: str, seed: int) -> str:
    """Return a text with one to four things done to it, the same for the same seed."""
    rng = random.Random(seed)
    for _ in range(rng.randint(1, 4)):
        text = rng.choice(MUTATIONS)(text, rng, texts)
    return text


def made_absent(text: str, seed: int) -> str | None:
    """Return a text in which one number above zero says that it is not known; None: it has none."""
    rng = random.Random(seed)
    numbers = [match for match in NUMBER.finditer(text) if float(match[0]) > 0]
    if not numbers:
        return None
    one = rng.choice(numbers)
    return text[: one.start()] + rng.choice(ABSENT[:-1]) + text[one.end() :]


def _lines(text: str) -> list[str]:
    return text.split("\n")


def _cut(text: str, rng: random.Random, _: tuple[str, ...]) -> str:
    return text[: rng.randrange(len(text) + 1)]


def _cut_head(text: str, rng: random.Random, _: tuple[str, ...]) -> str:
    return text[rng.randrange(len(text) + 1) :]


def _drop_lines(text: str, rng: random.Random, _: tuple[str, ...]) -> str:
    lines = _lines(text)
    at = rng.randrange(len(lines))
    del lines[at : at + rng.choice((1, 1, 2, 10))]
    return "\n".join(lines)


def _swap_lines(text: str, rng: random.Random, _: tuple[str, ...]) -> str:
    lines = _lines(text)
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return "\n".join(lines)


def _repeat_lines(text: str, rng: random.Random, _: tuple[str, ...]) -> str:
    lines = _lines(text)
    at = rng.randrange(len(lines))
    block = lines[at : at + rng.choice((1, 3, 20))]
    times = rng.choice((1, 2, 50))
    made = "\n".join([*lines[:at], *(block * times), *lines[at:]])
    return made if len(made) < MOST else text


def _halve_line(text: str, rng: random.Random, _: tuple[str, ...]) -> str:
    lines = _lines(text)
    at = rng.randrange(len(lines))
    lines[at] = lines[at][: rng.randrange(len(lines[at]) + 1)]
    return "\n".join(lines)


def _garble(text: str, rng: random.Random, _: tuple[str, ...]) -> str:
    if not text:
        return rng.choice(ODD)
    made = list(text)
    at = rng.randrange(len(made))
    for place in range(at, min(at + rng.choice((1, 1, 5, 40)), len(made))):
        made[place] = chr(rng.choice((rng.randrange(32, 127), rng.randrange(0x20), 0x2028, 0xFFFD)))
    return "".join(made)


def _odd_number(text: str, rng: random.Random, _: tuple[str, ...]) -> str:
    numbers = list(NUMBER.finditer(text))
    if not numbers:
        return text + rng.choice(ODD)
    one = rng.choice(numbers)
    return text[: one.start()] + rng.choice((*ODD, *ABSENT)) + text[one.end() :]


def _odd_word(text: str, rng: random.Random, _: tuple[str, ...]) -> str:
    words = list(re.finditer(r"[A-Za-z]+", text))
    if not words:
        return text
    one = rng.choice(words)
    return text[: one.start()] + rng.choice((*ODD, *ABSENT)) + text[one.end() :]


def _other_blanks(text: str, rng: random.Random, _: tuple[str, ...]) -> str:
    before, after = rng.choice(
        (
            ("\t", " "),
            (" ", "\t"),
            ("  ", " "),
            (":", " "),
            (", ", ","),
            ("\n", "\r\n"),
            ("\n", " "),
        )
    )
    return text.replace(before, after)


def _splice(text: str, rng: random.Random, texts: tuple[str, ...]) -> str:
    other = _lines(rng.choice(texts))
    lines = _lines(text)
    at, begin = rng.randrange(len(lines) + 1), rng.randrange(len(other))
    return "\n".join([*lines[:at], *other[begin : begin + rng.choice((1, 5, 50))], *lines[at:]])


MUTATIONS: tuple[Mutation, ...] = (
    *(_cut, _cut_head, _drop_lines, _swap_lines, _repeat_lines, _halve_line),
    *(_garble, _odd_number, _odd_word, _other_blanks, _splice),
)
