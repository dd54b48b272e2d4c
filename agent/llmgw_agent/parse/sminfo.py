"""`sminfo` of infiniband-diags: the subnet manager that a port was told of."""

import re

from llmgw.base.errors import Unreadable
from llmgw.model.fabric import SubnetManager
from llmgw_agent.parse import ib_values
from llmgw_agent.parse.tool import Tool

MASTER = "master"

STATES = {0: "not_active", 1: "discovering", 2: "standby", 3: MASTER}
"""SMState of attribute SMInfo: InfiniBand Architecture Specification, volume 1, section 14.4.1."""

_LINE = re.compile(r"sminfo: sm lid (?P<lid>\w+) sm guid (?P<guid>\w+)\b(?P<rest>[^\n]*)")
_PRIORITY = re.compile(r"\bpriority (?P<priority>[0-9]{1,2})\b")
_STATE = re.compile(r"\bstate (?P<state>[0-9])\b")
_NO_ANSWER = "iberror: failed: query"


def read_sminfo(text: str) -> SubnetManager | None:
    """Return the subnet manager; None: none answered, as on a fabric that has none.

    Raises:
        Unreadable: neither is said, as where the adapter can't be opened.
    """
    match = _LINE.search(text)
    guid = None if match is None else ib_values.guid(match["guid"])
    if match is None or guid is None:
        if _NO_ANSWER in text:
            return None
        said = text.strip().splitlines() or [""]
        raise Unreadable(f"sminfo: {said[0][:120]!r} names no subnet manager")
    priority, state = _PRIORITY.search(match["rest"]), _STATE.search(match["rest"])
    return SubnetManager(
        guid=guid,
        lid=ib_values.lid(match["lid"]),
        priority=None if priority is None else int(priority["priority"]),
        state=None if state is None else STATES.get(int(state["state"])),
    )


TOOLS = (Tool("sminfo", how="sminfo -C mlx5_0 -P 1", read=read_sminfo),)
