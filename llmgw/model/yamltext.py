"""One YAML document as plain values, and the keys that stand in a mapping more than once.

PyYAML takes the last of equal keys without a word: half of what was written would not be read. To
import this costs more than a whole command that needs no YAML.
"""

from collections.abc import Hashable, Iterator

import yaml

from llmgw.model.misfits import MOST, joined, named
from llmgw.model.record import Problem

_MERGE = "tag:yaml.org,2002:merge"


def plain(text: str) -> tuple[object, tuple[Problem, ...]]:
    """Return what a text holds, and each key that stands more than once in a mapping of it.

    None: the text is empty.

    Raises:
        yaml.YAMLError: it is not YAML, or more than one document.
        ValueError: a number of thousands of digits, a date that is none.
        OverflowError: as before.
        RecursionError: it has more levels inside each other than can be walked.
    """
    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None, ()
        walk = _Walk(loader)
        walk.into(root, "")
        return loader.construct_document(root), tuple(walk.problems[:MOST])
    finally:
        loader.dispose()


class _Walk:
    """A walk over a document before anything is merged; what an alias repeats is seen once."""

    def __init__(self, loader: yaml.SafeLoader) -> None:
        self._loader = loader
        self._seen: set[int] = set()
        self.problems: list[Problem] = []

    def into(self, node: yaml.Node, path: str) -> None:
        if id(node) in self._seen:
            return
        self._seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            for at, one in enumerate(node.value):
                self.into(one, f"{path}[{at}]")
        elif isinstance(node, yaml.MappingNode):
            self.problems.extend(self._repeated(node, path))
            for key, one in node.value:
                self.into(one, joined(path, named(key.value)))

    def _repeated(self, node: yaml.MappingNode, path: str) -> Iterator[Problem]:
        lines: dict[Hashable, list[int]] = {}
        names: dict[Hashable, str] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                read = self._read(key)
                lines.setdefault(read, []).append(key.start_mark.line + 1)
                names.setdefault(read, named(key.value))
        for read, found in lines.items():
            if len(found) > 1:
                yield Problem(path=joined(path, names[read]), words=_words(found))

    def _read(self, key: yaml.ScalarNode) -> Hashable:
        """Return a key as the mapping will have it: 1 and 0x1 are one key."""
        if key.tag == _MERGE:
            return _MERGE, key.value
        read: Hashable = self._loader.construct_object(key)
        return read


def _words(lines: list[int]) -> str:
    *before, last = map(str, lines)
    many = "twice" if len(lines) == 2 else f"{len(lines)} times"
    return f"stands there {many}: in lines {', '.join(before)} and {last}"
