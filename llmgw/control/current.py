"""What of a heartbeat still counts: a measurement older than a minute is left out, not repeated.

Devices' readings and health bear an age of their own. Of all else, the state of the source that
read it tells the age: each heartbeat carries those states.
"""

from collections.abc import Mapping

import msgspec

from llmgw.model.node import Heartbeat

OLD_SECONDS = 60.0

READ_BY: Mapping[str, tuple[str, ...]] = {
    "cpu": ("cpus", "cpu_percent", "load_average"),
    "memory": ("memory_bytes", "memory_available_bytes"),
    "disks": ("filesystems",),
    "shards": ("shards",),
    "sensors": ("sensors",),
    "ports": ("ports",),
}
"""The fields of a heartbeat by the source of facts that fills them, as agents call it."""


def current(heartbeat: Heartbeat, age: float) -> Heartbeat | None:
    """Return a heartbeat without what was read more than a minute ago.

    Args:
        heartbeat: a node's last.
        age: seconds since it came.

    Returns:
        None when it is itself older than that. Fields whose source tells no age stay.
    """
    if age > OLD_SECONDS:
        return None
    old = {
        field: None
        for probe in heartbeat.probes or ()
        if probe.age is not None and probe.age + age > OLD_SECONDS
        for field in READ_BY.get(probe.name, ())
    }
    return msgspec.structs.replace(heartbeat, **old) if old else heartbeat
