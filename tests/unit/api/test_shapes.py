"""The shape of every list's JSON is kept: it only grows."""

import json
from typing import Any

import pytest
from starlette.applications import Starlette

from llmgw.control.api.operation import Operation, Pieces, Raw
from llmgw.control.api.table import OPERATIONS
from tests import snapshots
from tests.fakes.plane import FakePlane
from tests.unit.api.asking import client, url

shown = [
    one
    for one in OPERATIONS
    if one.method == "GET" and not one.streams and one.answer not in (Pieces, Raw)
]


@pytest.mark.parametrize("operation", shown, ids=lambda one: one.name)
async def test_the_shape_is_what_it_was(
    app: Starlette, plane: FakePlane, operation: Operation
) -> None:
    async with client(app, plane.tokens_by_role["admin"]) as http:
        answer = await http.get(url(operation))
    assert answer.status_code == 200
    text = json.dumps(_steady(answer.json()), indent=1, ensure_ascii=False)
    snapshots.same(f"api/{operation.name}.json", text + "\n")


def _steady(value: Any) -> Any:
    """Return the value without the version of the engine that a release was checked with."""
    if isinstance(value, dict):
        return {
            key: "(pinned)" if key == "sha256" else _steady(inner) for key, inner in value.items()
        }
    return [_steady(inner) for inner in value] if isinstance(value, list) else value
