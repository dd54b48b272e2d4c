"""Every route with no token, a wrong one and each role."""

import itertools
import json

import httpx
import msgspec
import pytest
from starlette.applications import Starlette

from llmgw.control.api.access import RANK
from llmgw.control.api.app import build
from llmgw.control.api.operation import Operation
from llmgw.control.api.table import OPERATIONS
from llmgw.model.keys import ROLES
from tests.fakes.clock import FakeClock
from tests.fakes.fleet_parts import NOW
from tests.fakes.fleets import cpu_serving
from tests.fakes.plane import FakePlane
from tests.unit.api.asking import BODIES, PATHS, QUERIES, WHATEVER, Streamed, client, removable, url

WRONG = (
    "wrong-token",
    "llmgw_0123456789_" + "0" * 64,
    "x' OR (SELECT pg_sleep(8)) IS NOT NULL --",
    "\xff" * 40,
    "llmgw_" * 200,
)

guarded = [one for one in OPERATIONS if one.role is not None]


def each(operations: list[Operation]) -> pytest.MarkDecorator:
    names = [f"{one.method} {one.path}" for one in operations]
    return pytest.mark.parametrize("operation", operations, ids=names)


async def ask(
    app: Starlette,
    operation: Operation,
    header: str | None,
    *,
    ids: dict[str, str] | None = None,
    peer: str = "10.0.0.9",
) -> httpx.Response:
    body = BODIES.get(operation.name)
    async with client(app, peer=peer) as http:
        return await http.request(
            operation.method,
            url(operation, ids),
            content=None if body is None else json.dumps(body),
            headers=[
                *((name.encode(), value.encode()) for name, value in WHATEVER.items()),
                *([] if header is None else [(b"Authorization", header.encode("latin-1"))]),
            ],
        )


def test_every_operation_has_a_good_request_in_these_tests() -> None:
    for operation in OPERATIONS:
        assert ("{" in operation.path) == (operation.name in PATHS), operation.name
        assert (operation.body is not None) == (operation.name in BODIES), operation.name
        if operation.query is not None and operation.name not in QUERIES:
            fields = msgspec.structs.fields(operation.query)
            assert not any(field.required for field in fields), operation.name


def test_operations_are_unique() -> None:
    places = [(one.method, one.path) for one in OPERATIONS]
    names = [one.name for one in OPERATIONS]
    assert len(set(places)) == len(places)
    assert len(set(names)) == len(names)


def test_only_probes_need_no_token() -> None:
    assert [one.path for one in OPERATIONS if one.role is None] == ["/healthz", "/leader"]
    assert [one.path for one in OPERATIONS if one.open_on_loopback] == ["/metrics"]


ASKS_ONLY = {"plan_model"}
"""Operations that take a body and change nothing."""


def test_what_changes_something_needs_more_than_reading() -> None:
    for operation in OPERATIONS:
        if operation.method != "GET" and operation.name not in ASKS_ONLY:
            assert RANK[operation.role or "metrics"] >= RANK["operate"], operation.path


async def test_without_a_token_nothing_is_answered(app: Starlette) -> None:
    for operation in guarded:
        for header in (None, "", "Bearer", "Bearer ", "Basic YTpi", "Token x"):
            answer = await ask(app, operation, header)
            assert answer.status_code == 401, operation.path
            assert answer.json()["error"]["code"] == "unauthorized"
            assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_wrong_token_opens_nothing(app: Starlette, plane: FakePlane) -> None:
    almost = plane.tokens_by_role["admin"][:-1] + "!"
    peers = (f"10.1.{number // 250}.{number % 250}" for number in itertools.count())
    for operation in guarded:
        for wrong in (*WRONG, almost, plane.key_text):
            answer = await ask(app, operation, f"Bearer {wrong}", peer=next(peers))
            assert answer.status_code == 401, (operation.path, wrong)
            assert wrong not in answer.text


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_opens_what_it_may_and_nothing_else(role: str) -> None:
    for operation in guarded:
        plane = await FakePlane(cpu_serving(), FakeClock(NOW)).prepare()
        await walk(plane, operation, role)


async def walk(plane: FakePlane, operation: Operation, role: str) -> None:
    app, ids = build(plane), removable(plane)
    before = len(plane.memory.audited)
    token = plane.tokens_by_role[role]
    if operation.streams and RANK[role] >= RANK[operation.role or ""]:
        async with Streamed(app, url(operation, ids), token) as stream:
            stream.leave()
        assert stream.status == 200, operation.path
        return
    answer = await ask(app, operation, f"Bearer {token}", ids=ids)
    if RANK[role] >= RANK[operation.role or ""]:
        assert answer.status_code == operation.status, (operation.path, answer.text)
    else:
        assert answer.status_code == 403, operation.path
        assert answer.json()["error"]["code"] == "refused"
        assert role in answer.json()["error"]["message"]
        assert len(plane.memory.audited) == before


@each([one for one in OPERATIONS if one.method != "GET" and one.name not in ASKS_ONLY])
async def test_every_change_is_audited_with_the_tokens_name(
    app: Starlette, plane: FakePlane, ids: dict[str, str], operation: Operation
) -> None:
    before = len(plane.memory.audited)
    await ask(app, operation, f"Bearer {plane.tokens_by_role['admin']}", ids=ids)
    added = plane.memory.audited[before:]
    assert [entry.actor for entry in added] == ["the admin token"]


@each([one for one in OPERATIONS if one.name in ASKS_ONLY])
async def test_what_only_asks_is_not_audited(
    app: Starlette, plane: FakePlane, ids: dict[str, str], operation: Operation
) -> None:
    before = len(plane.memory.audited)
    answer = await ask(app, operation, f"Bearer {plane.tokens_by_role['read']}", ids=ids)
    assert answer.status_code == operation.status
    assert len(plane.memory.audited) == before


async def test_probes_answer_without_a_token(app: Starlette, plane: FakePlane) -> None:
    async with client(app) as http:
        assert (await http.get("/healthz")).json() == {"status": "ok"}
        assert (await http.get("/leader")).json() == {"leader": True, "term": 7}
        plane.leading = False
        standby = await http.get("/leader")
    assert standby.status_code == 503
    assert standby.json() == {"leader": False, "term": 7}


async def test_metrics_are_open_on_loopback_alone(app: Starlette) -> None:
    async with client(app, peer="127.0.0.1") as http:
        assert (await http.get("/metrics")).status_code == 401
        app.state.loopback = True
        assert (await http.get("/metrics")).status_code == 200


async def test_nobody_is_trusted_by_address_or_by_what_a_header_says(app: Starlette) -> None:
    headers = {
        "X-Forwarded-For": "127.0.0.1",
        "X-Real-IP": "127.0.0.1",
        "Forwarded": "for=127.0.0.1",
        "X-Forwarded-User": "admin",
        "Host": "127.0.0.1",
    }
    async with client(app, peer="127.0.0.1") as http:
        answer = await http.get("/api/v1/nodes", headers=headers)
    assert answer.status_code == 401


async def test_a_token_counts_in_the_authorization_header_alone(
    app: Starlette, plane: FakePlane
) -> None:
    token = plane.tokens_by_role["admin"]
    async with client(app) as http:
        for answer in (
            await http.get(f"/api/v1/nodes?token={token}"),
            await http.get(f"/api/v1/nodes?access_token={token}"),
            await http.get("/api/v1/nodes", headers={"Cookie": f"token={token}"}),
            await http.get("/api/v1/nodes", headers={"X-Api-Key": token}),
        ):
            assert answer.status_code == 401


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer  "])
async def test_the_schemes_case_does_not_matter(
    app: Starlette, plane: FakePlane, scheme: str
) -> None:
    async with client(app) as http:
        header = {"Authorization": f"{scheme} {plane.tokens_by_role['read']}"}
        assert (await http.get("/api/v1/nodes", headers=header)).status_code == 200


def test_the_order_of_roles_is_told_as_it_is() -> None:
    assert [a for a, _ in itertools.groupby(sorted(RANK, key=RANK.__getitem__))] == [
        "metrics",
        "read",
        "operate",
        "admin",
    ]
