"""`show_gids` of MLNX_OFED and DOCA: the table of GIDs of each port."""

import re

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.gids import Gid
from llmgw_agent.parse.tool import Tool

_ROW = re.compile(
    r"(?P<adapter>\S+)\s+(?P<number>[0-9]{1,3})\s+(?P<index>[0-9]{1,4})"
    r"\s+(?P<gid>[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){7})"
    # The column is empty for a GID that no IPv4 address is behind: the ones after it move.
    r"(?:\s+(?P<address>[0-9]{1,3}(?:\.[0-9]{1,3}){3}))?"
    r"\s+(?P<version>v[0-9])(?:\s+(?P<interface>\S+))?\s*\Z"
)
_HEAD = re.compile(r"DEV\s+PORT\s+INDEX\b|n_gids_found=")


def read_show_gids(text: str) -> tuple[Gid, ...]:
    """Return the GIDs in the order of the text; a line that is none costs itself.

    Raises:
        Unreadable: there is text, and it is no such table.
    """
    rows = (_ROW.match(line.strip()) for line in text.splitlines())
    found = tuple(
        Gid(
            adapter=row["adapter"],
            number=int(row["number"]),
            index=int(row["index"]),
            gid=row["gid"],
            address=row["address"],
            version=row["version"],
            interface=row["interface"],
        )
        for row in rows
        if row is not None
    )
    if not found and text.strip() and _HEAD.search(text) is None:
        raise Unreadable(f"show_gids: {text.strip().splitlines()[0][:80]!r} is no table of GIDs")
    return found


TOOLS = (Tool("show_gids", how="show_gids", read=read_show_gids),)
