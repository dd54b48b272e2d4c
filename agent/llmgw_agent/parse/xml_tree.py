"""XML as a tree of elements, read without any of XML's ways to ask for more than its text holds."""

from xml.parsers import expat

from llmgw.base.errors import Unreadable

_DEEPEST = 64


class Element:
    """One element. Attributes: its tag, its own attributes, its children in order, its text."""

    __slots__ = ("attributes", "children", "tag", "text")

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.children: list[Element] = []
        self.text = ""

    def find(self, path: str) -> "Element | None":
        """Return the first element at a path of tags below this one."""
        here: Element = self
        for tag in path.split("/"):
            found = next((child for child in here.children if child.tag == tag), None)
            if found is None:
                return None
            here = found
        return here

    def said(self, *paths: str) -> str:
        """Return the text of the first of these elements that is there, without blanks around."""
        found = (self.find(path) for path in paths)
        return next((element.text.strip() for element in found if element is not None), "")

    def all(self, path: str) -> "list[Element]":
        """Return every element at a path; only the last tag may be there more than once."""
        above, _, tag = path.rpartition("/")
        holder = self.find(above) if above else self
        return [] if holder is None else [one for one in holder.children if one.tag == tag]


def read_xml(text: str) -> Element:
    """Return the outermost element.

    A document type may be named and is not fetched. Entities may not be declared: a few of them
    make gigabytes out of a short text.

    Raises:
        Unreadable: it is not XML, declares entities, or nests deeper than 64 elements.
    """
    builder = _Builder()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.characters
    parser.EntityDeclHandler = _refuse_entity
    try:
        parser.Parse(text, True)
    except (expat.ExpatError, ValueError) as error:
        lines = text.splitlines()
        number = parser.ErrorLineNumber
        line = lines[number - 1] if 0 < number <= len(lines) else ""
        raise Unreadable(f"not XML: {error}: {line.strip()[:120]!r}") from error
    return builder.root


class _Builder:
    def __init__(self) -> None:
        self.root = Element("", {})
        self._open: list[Element] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._open) >= _DEEPEST:
            raise Unreadable(f"XML that nests deeper than {_DEEPEST} elements, at <{tag[:60]}>")
        element = Element(tag, attributes)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def end(self, _tag: str) -> None:
        self._open.pop()

    def characters(self, text: str) -> None:
        self._open[-1].text += text


def _refuse_entity(name: str, *_: object) -> None:
    raise Unreadable(f"XML that declares entities: {name[:60]!r}")
