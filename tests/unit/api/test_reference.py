"""The references are what the code says, and the document is sound."""

import json
from pathlib import Path
from typing import Any

import pytest

from llmgw.control.api.openapi import document, references
from llmgw.control.api.operation import Operation
from llmgw.control.api.table import OPERATIONS

DOCS = Path(__file__).resolve().parents[3] / "docs" / "reference"


@pytest.mark.parametrize("name", sorted(references()))
def test_the_kept_reference_is_what_the_code_says(name: str) -> None:
    kept = (DOCS / name).read_bytes()
    assert kept == references()[name], "run: python -m llmgw.control.api.openapi"


def test_every_operation_is_in_the_document() -> None:
    paths = document(OPERATIONS)["paths"]
    described = {(method.upper(), path) for path, one in paths.items() for method in one}
    assert described == {(one.method, one.path.replace(":path", "")) for one in OPERATIONS}


def test_every_reference_inside_the_document_leads_somewhere() -> None:
    whole = json.loads(references()["api.json"])
    schemas = whole["components"]["schemas"]

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if "$ref" in value:
                assert value["$ref"].removeprefix("#/components/schemas/") in schemas
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(whole)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_every_operation_is_described(operation: Operation) -> None:
    one = document([operation])["paths"][operation.path.replace(":path", "")]
    described = one[operation.method.lower()]
    assert described["summary"].endswith(".")
    assert described["x-role"] == operation.role
    names = {parameter["name"] for parameter in described["parameters"]}
    assert all(f"{{{name}}}" not in operation.path or name in names for name in ("id", "name"))
    assert ("requestBody" in described) == (operation.body is not None)
