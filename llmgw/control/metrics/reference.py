"""The reference of all metrics, made from the table of families.

`python -m llmgw.control.metrics.reference` writes docs/reference/metrics.md; a test holds it to
what the code says.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from llmgw.control.metrics.families import FAMILIES
from llmgw.control.metrics.family import Family

NAME = "metrics.md"


def reference(families: Sequence[Family] = FAMILIES) -> str:
    """Return the table as Markdown."""
    lines = [
        "# Metrics",
        "",
        "The leader's `/metrics` exports the whole fleet: one target to scrape. What was not",
        "measured has no sample; it is never 0. A standby exports only the families marked *all*.",
        "Beside these there are the usual `process_*` families of the control plane's process.",
        "Made from the code by `python -m llmgw.control.metrics.reference`.",
        "",
        "| family | type | labels | unit | what | absent | by |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [_row(one) for one in families]
    return "\n".join(lines) + "\n"


def _row(one: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in one.labels) or "-"
    by = "all" if one.always else "leader"
    return (
        f"| `{one.name}` | {one.kind} | {labels} | {one.unit} | {one.help} | {one.absent} | {by} |"
    )


if __name__ == "__main__":
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/reference")
    (place / NAME).write_text(reference())
