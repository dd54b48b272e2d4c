"""Prometheus's own tool on the text that is scraped."""

import shutil
import subprocess
from pathlib import Path

import pytest

from llmgw.control.metrics.collector import process_text, render
from llmgw.control.metrics.families import FAMILIES
from tests.fakes.whole_scrape import whole_scrape

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool on this machine"),
]

HOW_TO = Path(__file__).parents[3] / "docs/how-to/monitoring.md"
GIVEN = "llmgw_ib_port_counter_total metric name should not include type 'counter'"
"""The one name of which the tool complains: it is given from outside."""


def complaints(text: bytes) -> list[str]:
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=text,
        check=False,
        capture_output=True,
        timeout=60,
    )
    return sorted({*done.stdout.decode().splitlines(), *done.stderr.decode().splitlines()})


def test_a_page_with_every_family_is_clean_but_for_the_name_that_is_given() -> None:
    text = render(whole_scrape())
    assert all(f"# TYPE {one.name} ".encode() in text for one in FAMILIES)
    assert complaints(text + process_text()) == [GIVEN]


def test_what_the_tool_complains_of_is_said_where_the_family_is_described() -> None:
    (noted,) = [one for one in FAMILIES if one.note is not None and "promtool" in one.note]
    name, _, words = GIVEN.partition(" ")
    assert noted.name == name
    assert f"`{words}`" in (noted.note or "")
    assert GIVEN in HOW_TO.read_text()


def test_the_tool_sees_what_is_wrong() -> None:
    text = render(whole_scrape())
    helpless = text.replace(b"# HELP llmgw_leader ", b"# NOTHING llmgw_leader ")
    assert "llmgw_leader no help text" in complaints(helpless)
    unescaped = text.replace(b'driver="', b'driver="""')
    assert complaints(unescaped) != [GIVEN]
