"""What the gateway reads of a form (RFC 7578): the fields beside the file, and where the model is.

Read strictly: of a form that could be read in two ways the engine may read the other one.
"""

import re
from collections.abc import Iterator

import msgspec

from llmgw.gateway.paths import FORMS
from llmgw.gateway.proxy.body import Asked, FormAsked, read_body
from llmgw.gateway.proxy.requests import Request
from llmgw.gateway.refusals import Refusal

PARTS_MOST = 64
HEAD_MOST = 4 << 10
"""Bytes of one part's head."""
FIELD_MOST = 64 << 10
"""Bytes of a field that is looked into: the others are prompts and files."""
_BOUNDARY = re.compile(
    rb"multipart/form-data\s*;(?:[^;,]*;)*?\s*boundary=(?:\"([^\"\\]{1,70})\"|([^\s;\"]{1,70}))\s*$",
    re.IGNORECASE,
)
_DISPOSITION = re.compile(rb"(?im)^content-disposition:[ \t]*form-data((?:;[^\r\n]*)?)\r?$")
_PARAMETER = re.compile(rb";[ \t]*([A-Za-z*]+)=(?:\"((?:[^\"\\]|\\.)*)\"|([^\s;\"]+))[ \t]*")
_LOOKED_AT = frozenset(
    field.name for field in msgspec.structs.fields(Asked) if field.type is not msgspec.Raw
)


def read_asked(request: Request) -> Asked | Refusal:
    """Return what the gateway needs of a request's body, or why it is refused."""
    if request.path in FORMS:
        return read_form(request.body, request.headers.get(b"content-type", b""))
    return read_body(request.body)


def read_form(body: bytes, content_type: bytes) -> FormAsked | Refusal:
    """Return what the gateway needs of a form, or why it is refused.

    Numbers are read for their bounds alone, as in a JSON body. Whether a stream is asked for is
    left to the engine: nothing is edited that would have to be taken out of it again.
    """
    found = _BOUNDARY.match(content_type.strip())
    if found is None:
        return Refusal(
            "invalid_form", "the Content-Type is not a form's, with a boundary at its end"
        )
    fields: dict[str, str] = {}
    where = (0, 0)
    try:
        for name, begin, end in _fields(body, found[1] or found[2]):
            if name in fields:
                return Refusal("invalid_form", f"the form has two fields {name!r}", name)
            fields[name] = body[begin:end].decode()
            if name == "model":
                where = begin, end
        asked = msgspec.convert(fields, Asked, strict=False)
    except msgspec.ValidationError as error:
        return Refusal("invalid_value", str(error))
    except ValueError as error:
        return Refusal("invalid_form", f"not a form as it is taken here: {error}")
    return FormAsked(model=asked.model, model_at=where)


def _fields(body: bytes, boundary: bytes) -> Iterator[tuple[str, int, int]]:
    """Yield name and span of the value of each field that the gateway looks at.

    Raises:
        ValueError: the form is broken, or too large to be one.
    """
    mark = b"--" + boundary
    if not body.startswith(mark):
        raise ValueError("it does not begin with its boundary")
    begin = len(mark)
    for _ in range(PARTS_MOST):
        if body[begin : begin + 2] == b"--":
            return
        if body[begin : begin + 2] != b"\r\n":
            raise ValueError("a boundary does not end its line")
        head_end = body.find(b"\r\n\r\n", begin, begin + HEAD_MOST)
        end = body.find(b"\r\n" + mark, max(begin, head_end + 2))
        if head_end < 0 or end < 0:
            raise ValueError("a part has no end")
        name, is_file = _named(body[begin + 2 : head_end])
        if name in _LOOKED_AT:
            if is_file or end - head_end > FIELD_MOST:
                raise ValueError(f"the field {name!r} is a file, or as large as one")
            yield name, head_end + 4, end
        begin = end + 2 + len(mark)
    raise ValueError(f"it has more than {PARTS_MOST} parts")


def _named(head: bytes) -> tuple[str, bool]:
    """Return a part's name, and whether it is a file.

    Raises:
        ValueError: it has none, or several.
    """
    found = _DISPOSITION.findall(head)
    if len(found) != 1:
        raise ValueError("a part has not one Content-Disposition")
    parameters = _PARAMETER.findall(found[0])
    if b"".join(_PARAMETER.split(found[0])[::4]).strip():
        raise ValueError("a part's Content-Disposition can't be read")
    names = [quoted or bare for key, quoted, bare in parameters if key.lower().startswith(b"name")]
    encoded = any(key.lower() == b"name*" for key, _, _ in parameters)
    if len(names) != 1 or encoded or b"\\" in names[0]:
        raise ValueError("a part has not one plain name")
    is_file = any(key.lower().startswith(b"filename") for key, _, _ in parameters)
    return names[0].decode(), is_file
