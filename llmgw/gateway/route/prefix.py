"""Which replica may still hold the beginning of a prompt: hashes of it, in a table of fixed size.

The raw bytes of a prompt are cut into pieces that end at growing distances from its beginning, and
each piece is hashed with all that is before it. Two prompts share a hash exactly when they begin
alike up to the end of that piece, and so does what an engine holds of them.
"""

from collections.abc import Sequence

BLOCK = 256
"""Bytes of a block; what follows the last whole one is not looked at."""
LEVELS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""After how many blocks a piece ends. Growing ones cost a tenth of one hash a block, and tell how
much of a prompt is held to within a third.
"""
MARKS = 63
"""Replicas that the table tells apart."""
SLOTS = 1 << 19
"""Hashes that the table holds, a power of two; a new one takes the place of what was there."""
WORDS = 2 * SLOTS
"""Signed 64-bit words of a table: of each slot the hash, and a bit for each replica."""

_PIECES = tuple(zip((0, *LEVELS[:-1]), LEVELS, strict=True))
_SPANS = tuple((BLOCK * begin, BLOCK * end) for begin, end in _PIECES)


def leading_hashes(text: bytes, seed: int) -> list[int]:
    """Return the hash of each leading part of a prompt, the shortest first.

    Python's own hash of bytes is keyed and as fast as any; processes that share a table are
    started with one key (PYTHONHASHSEED).

    Args:
        text: the prompt's bytes as its client wrote them.
        seed: of what only counts together with the prompt, such as the model.
    """
    size, found, last = len(text), [], seed
    for begin, end in _SPANS:
        if end > size:
            break
        last = hash((last, text[begin:end]))
        found.append(last)
    return found


def mark_of(number: int) -> int:
    """Return the bit of the replica with that number.

    Of numbers that are given one after the other, 63 have bits of their own. Two replicas that
    share one are both taken for holding what one of them holds.
    """
    return 1 << (number % MARKS)


class PrefixTable:
    """Hashes and who holds what they stand for: hints that may be wrong, in memory of fixed size.

    All workers of a gateway share one without a lock. Two that write one slot at once may leave a
    hint that is wrong or lost: a request then goes where it would have gone without it, or to a
    replica that has as little to do.

    Args:
        words: `WORDS` signed 64-bit words, zeroed at first.
    """

    __slots__ = ("_words",)

    def __init__(self, words: "memoryview[int]") -> None:
        self._words = words

    def learn(self, hashes: Sequence[int], mark: int) -> None:
        """Note that the replica with a mark holds what these hashes stand for."""
        words = self._words
        for one in hashes:
            at = (one & (SLOTS - 1)) << 1
            if words[at] != one:
                words[at + 1] = mark
                words[at] = one
            elif not words[at + 1] & mark:
                words[at + 1] |= mark

    def assign(self, one: int, mark: int) -> None:
        """Note that the replica with a mark, and no other, has what a hash stands for."""
        at = (one & (SLOTS - 1)) << 1
        self._words[at + 1] = mark
        self._words[at] = one

    def holders(self, hashes: Sequence[int], among: int) -> list[tuple[int, int]]:
        """Return marks, and how many of the hashes the replicas with them hold, the most first.

        Args:
            hashes: of the leading parts of one prompt.
            among: the marks of the replicas that may be chosen.
        """
        words, found, left = self._words, [], len(hashes)
        while left and among:
            one = hashes[left - 1]
            at = (one & (SLOTS - 1)) << 1
            if words[at] == one and (marks := words[at + 1] & among):
                found.append((marks, left))
                among &= ~marks
            left -= 1
        return found

    def size(self) -> int:
        """Return how many hashes it holds; looks at all of it."""
        return sum(1 for marks in self._words[1::2] if marks)
