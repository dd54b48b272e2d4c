"""The OpenAPI document and the table of paths, made from the table of operations.

`python -m llmgw.control.api.openapi` writes docs/reference/api.json and api.md; a test holds them
to what the code says.
"""

import functools
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from llmgw import __version__
from llmgw.control.api.answer import ErrorAnswer
from llmgw.control.api.operation import Operation, Pieces, Raw
from llmgw.control.api.table import OPERATIONS

_CONVERTOR = re.compile(r"{(\w+):\w+}")
_PARAMETER = re.compile(r"{(\w+)}")
_REF = "#/components/schemas/{name}"
_JSON = "application/json"


@functools.cache
def document_json() -> bytes:
    """Return the document of the whole table as JSON."""
    return json.dumps(document(OPERATIONS), indent=1, ensure_ascii=False).encode() + b"\n"


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of some operations."""
    types = _types(operations)
    schemas, components = msgspec.json.schema_components(types, schema_hook=_any, ref_template=_REF)
    by_type = dict(zip(map(repr, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        path = _CONVERTOR.sub(r"{\1}", operation.path)
        paths.setdefault(path, {})[operation.method.lower()] = _described(operation, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "llmgw admin API",
            "version": __version__,
            "description": (
                "Names of nodes, replicas and models stand in paths as they are, percent-encoded "
                "where a URL needs it; a model's name may hold slashes. Times are seconds since "
                "the epoch. A value of null was not measured or is not known; it is never 0."
            ),
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def table(operations: Sequence[Operation]) -> str:
    """Return the table of paths with role and listener, as Markdown."""
    lines = [
        "# Paths of the admin API",
        "",
        "Made from the code by `python -m llmgw.control.api.openapi`; shapes are in `api.json`.",
        "A role may do what the roles before it may: metrics, read, operate, admin.",
        "",
        "| method | path | role | listener | what |",
        "| --- | --- | --- | --- | --- |",
    ]
    for one in operations:
        role = one.role or "none"
        if one.open_on_loopback:
            role += "; none when it listens on loopback alone"
        path = _CONVERTOR.sub(r"{\1}", one.path)
        lines.append(f"| {one.method} | `{path}` | {role} | {one.listener} | {one.summary} |")
    return "\n".join(lines) + "\n"


def write(directory: Path) -> None:
    """Write both references."""
    for name, data in references().items():
        (directory / name).write_bytes(data)


def references() -> dict[str, bytes]:
    """Return the generated references by file name."""
    return {"api.json": document_json(), "api.md": table(OPERATIONS).encode()}


def _types(operations: Sequence[Operation]) -> list[Any]:
    found: dict[str, Any] = {repr(ErrorAnswer): ErrorAnswer}
    for one in operations:
        for type_ in (one.body, one.query, one.answer):
            if type_ not in (None, Pieces, Raw):
                found[repr(type_)] = type_
    return list(found.values())


def _described(one: Operation, by_type: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.summary,
        "x-role": one.role,
        "x-listener": one.listener,
        "parameters": _parameters(one),
        "responses": {
            str(one.status): _answer(one, by_type),
            "default": {
                "description": "What is wrong, and what to do about it.",
                "content": {_JSON: {"schema": by_type[repr(ErrorAnswer)]}},
            },
        },
        "security": [] if one.role is None else [{"token": []}],
    }
    if one.body is not None:
        found["requestBody"] = {
            "required": True,
            "content": {_JSON: {"schema": by_type[repr(one.body)]}},
        }
    return found


def _parameters(one: Operation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(_CONVERTOR.sub(r"{\1}", one.path))
    ]
    if one.query is not None:
        schema = msgspec.json.schema(one.query)
        fields = next(iter(schema["$defs"].values()))
        required = fields.get("required", [])
        found += [
            {"name": name, "in": "query", "required": name in required, "schema": field}
            for name, field in fields["properties"].items()
        ]
    if one.versioned:
        either = [{"type": "integer", "minimum": 0}, {"const": "*"}]
        needed = {"required": True, "schema": {"anyOf": either}}
        found.append({"name": "If-Match", "in": "header", **needed})
    return found


def _answer(one: Operation, by_type: dict[str, Any]) -> dict[str, Any]:
    if one.answer is None:
        return {"description": "Done."}
    if one.answer is Pieces:
        return {"description": one.summary, "content": {"text/plain": {}}}
    if one.answer is Raw:
        return {"description": one.summary, "content": {_JSON: {}}}
    kind = "text/event-stream" if one.streams else _JSON
    return {"description": one.summary, "content": {kind: {"schema": by_type[repr(one.answer)]}}}


def _any(type_: type) -> dict[str, Any]:
    """Return the schema of a value of any kind."""
    if type_ is object:
        return {}
    raise NotImplementedError(type_)


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/reference"))
