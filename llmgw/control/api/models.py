"""The catalog: models as people wrote them, and whether they are served."""

import msgspec

from llmgw.base.errors import NotFound
from llmgw.control.api.operation import PREFIX, Call, Operation
from llmgw.control.api.replicas import notes
from llmgw.control.api.shapes import ModelShown
from llmgw.control.api.status import ready
from llmgw.model.catalog import CatalogEntry, Model
from llmgw.model.catalog_check import check_model
from llmgw.model.faulty import Faulty
from llmgw.model.gateway import Route
from llmgw.model.keys import OPERATE, READ
from llmgw.model.record import Problem


async def models(call: Call) -> tuple[ModelShown, ...]:
    """Return the catalog, by name."""
    routes = {route.model: route for route in call.plane.fleet.routes()}
    told = notes(call.plane)
    return tuple(
        _shown(one, routes.get(one.model.name), told.get(one.model.name))
        for one in call.plane.catalog.entries()
    )


async def model(call: Call) -> ModelShown:
    """Return one model."""
    name = call.path["name"]
    entry = call.plane.catalog.get(name)
    if entry is None:
        raise NotFound(f"no model {name!r}", hint="list them: llmgw ctl models")
    routes = {route.model: route for route in call.plane.fleet.routes()}
    return _shown(entry, routes.get(name), notes(call.plane).get(name))


async def put_model(call: Call, body: Model) -> CatalogEntry:
    """Add or replace a model."""
    name = call.path["name"]
    if body.name != name:
        words = f"is {body.name!r}, the address names {name!r}"
        raise Faulty("model", (Problem(path="name", words=words),))
    return await call.plane.catalog.put(body, call.if_match, actor=call.caller.name)


async def remove_model(call: Call) -> None:
    """Remove a model; its replicas are stopped."""
    await call.plane.catalog.remove(call.path["name"], actor=call.caller.name)


async def model_history(call: Call) -> tuple[CatalogEntry, ...]:
    """Return former and present versions of a model, newest first."""
    return await call.plane.catalog.history(call.path["name"])


def _shown(entry: CatalogEntry, route: Route | None, note: str | None) -> ModelShown:
    wanted = sum(profile.replicas for profile in entry.model.profiles)
    return ModelShown(
        **msgspec.structs.asdict(entry),
        ready=ready(route),
        wanted=route.wanted if route else wanted,
        reason=route.reason if route else None,
        note=note,
    )


OPERATIONS = (
    Operation("GET", f"{PREFIX}/models", READ, models, "The catalog, and what of it is served."),
    Operation("GET", f"{PREFIX}/models/{{name:path}}", READ, model, "One model."),
    Operation(
        "PUT",
        f"{PREFIX}/models/{{name:path}}",
        OPERATE,
        put_model,
        "Add or replace a model. If-Match: the version that was read, 0 for a new one, "
        "`*` to replace whatever is there.",
        versioned=True,
        meaning=check_model,
    ),
    Operation(
        "DELETE",
        f"{PREFIX}/models/{{name:path}}",
        OPERATE,
        remove_model,
        "Remove a model; its replicas are stopped.",
        status=204,
    ),
    Operation(
        "GET",
        f"{PREFIX}/model-history/{{name:path}}",
        READ,
        model_history,
        "Former and present versions of a model, newest first.",
    ),
)
