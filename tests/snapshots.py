"""Texts that are kept under snapshots/ and compared whole.

`LLMGW_WRITE_SNAPSHOTS=1 pytest …` writes them anew; the difference is read before it is kept.
"""

import difflib
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "snapshots"


def same(name: str, text: str) -> None:
    """Fail with a difference when `text` is not what snapshots/`name` holds."""
    path = ROOT / name
    if os.environ.get("LLMGW_WRITE_SNAPSHOTS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    kept = path.read_text() if path.exists() else ""
    if kept != text:
        lines = difflib.unified_diff(
            kept.splitlines(), text.splitlines(), f"snapshots/{name}", "now", lineterm=""
        )
        shown = "\n".join(list(lines)[:200])
        raise AssertionError(f"snapshots/{name} differs (LLMGW_WRITE_SNAPSHOTS=1):\n{shown}")
