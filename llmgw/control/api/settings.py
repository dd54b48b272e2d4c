"""The cluster's settings, with their history."""

from llmgw.control.api.operation import PREFIX, Call, Operation
from llmgw.control.api.shapes import HistoryQuery, SettingPut
from llmgw.model.keys import ADMIN, READ
from llmgw.model.settings import SettingsChange
from llmgw.store.interface import StoredSettings


async def settings(call: Call) -> StoredSettings:
    """Return the settings in force."""
    return call.plane.settings.current


async def put_setting(call: Call, body: SettingPut) -> StoredSettings:
    """Change one setting or one branch."""
    return await call.plane.settings.put(
        body.path, body.value, actor=call.caller.name, expected=body.expected
    )


async def settings_history(call: Call, query: HistoryQuery) -> tuple[SettingsChange, ...]:
    """Return changes at or below a path, newest first."""
    return await call.plane.store.settings_history(query.path, query.limit)


OPERATIONS = (
    Operation("GET", f"{PREFIX}/settings", READ, settings, "The settings and their version."),
    Operation(
        "PUT",
        f"{PREFIX}/settings",
        ADMIN,
        put_setting,
        "Change one setting or branch by its dotted path; a value of null puts the default back.",
    ),
    Operation(
        "GET",
        f"{PREFIX}/settings-history",
        READ,
        settings_history,
        "Changes of settings, newest first.",
    ),
)
