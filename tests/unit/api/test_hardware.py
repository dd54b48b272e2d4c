"""What happened to hardware, as the admin API tells it."""

from starlette.applications import Starlette

from llmgw.model.fabric import Port
from llmgw.model.node import Heartbeat
from tests.fakes.fleet_parts import NOW
from tests.fakes.plane import FakePlane
from tests.unit.api.asking import client

PATH = "/api/v1/hardware-changes"


async def words(app: Starlette, plane: FakePlane, query: str = "") -> list[str]:
    async with client(app, plane.tokens_by_role["read"]) as http:
        answer = await http.get(f"{PATH}{query}")
    assert answer.status_code == 200, answer.text
    return [one["words"] for one in answer.json()]


async def test_the_last_day_of_all_nodes_is_told_also_what_is_not_stored_yet(
    app: Starlette, plane: FakePlane
):
    for state in ("ACTIVE", "DOWN"):
        port = Port(adapter="mlx5_0", number=1, state=state)
        plane.hardware.heard("borea", Heartbeat(sequence=1, ports=(port,)), str)
    error = "gpu3: XID 79 (fell off the bus) 2 times: reboot the machine"
    assert await words(app, plane) == [error, "port mlx5_0/1: ACTIVE → DOWN"]
    assert await words(app, plane, "?node=atlas") == [error]
    assert await words(app, plane, f"?since={NOW - 60}") == ["port mlx5_0/1: ACTIVE → DOWN"]
    assert await words(app, plane, f"?since={NOW - 100}&node=atlas") == [error]


async def test_a_node_that_nobody_knows_is_not_found(app: Starlette, plane: FakePlane):
    async with client(app, plane.tokens_by_role["read"]) as http:
        answer = await http.get(f"{PATH}?node=nowhere")
    assert answer.status_code == 404
    assert "nowhere" in answer.json()["error"]["message"]
