"""No answer of any kind holds a secret."""

import base64
import json
from urllib.parse import quote

import pytest
from starlette.applications import Starlette

from llmgw.control.api.operation import Operation
from llmgw.control.api.table import OPERATIONS
from llmgw.model.commands import LogLines
from tests.fakes.plane import FakePlane
from tests.fakes.plane_records import ENGINE_KEY
from tests.unit.api.asking import BODIES, WHATEVER, Streamed, client, url


def forms(secret: str) -> list[str]:
    encoded = base64.b64encode(secret.encode()).decode().rstrip("=")
    return [secret, encoded, quote(secret, safe=""), json.dumps(secret)[1:-1]]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: f"{one.method} {one.path}")
async def test_no_answer_holds_a_secret(
    app: Starlette, plane: FakePlane, ids: dict[str, str], operation: Operation
) -> None:
    admin = plane.tokens_by_role["admin"]
    secrets = [ENGINE_KEY, plane.key_text, *plane.tokens_by_role.values()]
    texts: list[str] = []
    if operation.streams:
        plane.fake_agents.later = [LogLines(request="r", lines=("a line",))]
        async with Streamed(
            app, url(operation, ids).replace("topics=nodes", "topics=keys"), admin
        ) as s:
            s.leave()
        texts.append(s.body.decode())
    else:
        content = json.dumps(BODIES.get(operation.name)) if operation.body else None
        async with client(app, admin) as http:
            for target in (url(operation, ids), url(operation, ids) + "?x=" + admin):
                answer = await http.request(
                    operation.method, target, content=content, headers=WHATEVER
                )
                texts.append(answer.text + str(answer.headers))
    for secret in secrets:
        for form in forms(secret):
            assert all(form not in text for text in texts)
