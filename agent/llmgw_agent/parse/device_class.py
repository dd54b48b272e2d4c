"""What placement counts a card as, from its name and its memory."""

import math
import re
from functools import lru_cache

_SIZES = (
    *(1, 2, 3, 4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64),
    *(80, 94, 96, 128, 141, 144, 180, 186, 192, 256, 288, 384),
)
"""GB as makers print them; a card shows up to a sixteenth less (ECC, reserved)."""

_MAKER_WORDS = frozenset({"nvidia", "tesla", "geforce", "quadro", "graphics", "device"})
_FORM_WORDS = frozenset(
    {"pcie", "sxm", "sxm2", "sxm3", "sxm4", "sxm5", "hbm2", "hbm2e", "hbm3", "hbm3e"}
)
_PRINTED_SIZE = re.compile(r"^(\d{1,5})gb$", re.ASCII)


@lru_cache(maxsize=256)  # asked for each card with each heartbeat
def device_class(name: str | None, memory_bytes: int | None) -> str | None:
    """Return the class that placement counts: `h100-80g`; None for a card without a name."""
    if not name:
        return None
    words = [w for w in re.split(r"[\s-]+", name.lower()) if w and w not in _MAKER_WORDS]
    printed = next((m[1] for w in words if (m := _PRINTED_SIZE.match(w))), None)
    model = [w for w in words if w not in _FORM_WORDS and not _PRINTED_SIZE.match(w)]
    # What the driver measures goes before what is printed: a GH200 prints its processor's memory.
    size = _size_gb(memory_bytes) or (int(printed) if printed else None)
    slug = "-".join(re.sub(r"[^a-z0-9.]", "", w) for w in model) or "gpu"
    return slug if size is None else f"{slug}-{size}g"


def _size_gb(memory_bytes: int | None) -> int | None:
    if not memory_bytes:
        return None
    gib = memory_bytes / (1 << 30)
    return next((size for size in _SIZES if size >= gib), math.ceil(gib))
