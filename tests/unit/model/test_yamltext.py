"""Keys that stand in a YAML mapping more than once: refused wherever people write YAML."""

import ast
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import llmgw
import llmgw_agent
import llmgw_tui
from llmgw.base.errors import Unreadable
from llmgw.cli.modelfile import read_model
from llmgw.client.contextfile import WrittenContexts
from llmgw.gateway.endpoints_file import EndpointsFile
from llmgw.model.catalog import Model
from llmgw.model.faulty import Faulty
from llmgw.model.settings import Settings
from llmgw.model.written import layered, plain_yaml, read_yaml, to_yaml
from llmgw.model.yamltext import plain

TWICE = """\
name: m
profiles:
  - engine: simulated
    replicas: 1
    gpus: 0
    replicas: 2
name: other
"""


class Own(msgspec.Struct, forbid_unknown_fields=True):
    name: str = ""


def test_each_key_that_stands_twice_is_told_with_its_path_and_both_lines() -> None:
    with pytest.raises(Faulty) as caught:
        plain_yaml(TWICE, "m.yaml")
    assert caught.value.message == (
        "m.yaml: name: stands there twice: in lines 1 and 7; "
        "profiles[0].replicas: stands there twice: in lines 4 and 6"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\na: 1\na: 2\n", "a: stands there 3 times: in lines 1, 2 and 3"),
        ('{"a": 1,\n "b": {"c": 1, "c": 2}}', "b.c: stands there twice: in lines 2 and 2"),
        ("a: 1\n'a': 2\n", "a: stands there twice: in lines 1 and 2"),
        ("1: a\n0x1: b\n", "1: stands there twice: in lines 1 and 2"),
        ("x: &x {a: 1}\ny:\n  <<: *x\n  <<: *x\n", "y.<<: stands there twice: in lines 3 and 4"),
        ("- b: &x {c: 1, c: 2}\n- *x\n", "[0].b.c: stands there twice: in lines 1 and 1"),
        ('"a\\nb": 1\n"a\\nb": 2\n', "a\\nb: stands there twice: in lines 1 and 2"),
    ],
)
def test_equal_keys_are_seen_however_they_are_written(text: str, words: str) -> None:
    with pytest.raises(Unreadable) as caught:
        plain_yaml(text, "f")
    assert caught.value.message == f"f: {words}"


def test_what_is_merged_into_a_mapping_may_be_said_anew() -> None:
    text = "base: &b {a: 1, b: 2}\none: &c {<<: *b, a: 3}\ntwo: {<<: [*c, *b], b: 4}\n"
    said = plain_yaml(text, "f")
    assert said == yaml.safe_load(text)
    assert isinstance(said, dict)
    assert said["one"] == {"a": 3, "b": 2}


def test_keys_that_stand_twice_are_told_with_all_else_that_is_wrong() -> None:
    with pytest.raises(Faulty) as caught:
        read_yaml("name: 1\nname: 2\nprofile: []\n", Model, "f")
    assert [one.path for one in caught.value.problems] == ["name", "name", "profile"]


READERS: dict[str, Callable[[str], object]] = {
    "models": lambda text: read_model(text, "f"),
    "settings": lambda text: read_yaml(text, Settings, "f"),
    "contexts": lambda text: read_yaml(text, WrittenContexts, "f"),
    "a gateway's endpoints": lambda text: read_yaml(text, EndpointsFile, "f"),
    "a value": lambda text: plain_yaml(text, "f"),
    "a service's file": lambda text: layered(
        Own, flags={}, environ={}, file=Path("f"), file_text=text
    ),
}


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_of_what_people_write_refuses_them(
    reader: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Unreadable) as caught:
        READERS[reader]("name: a\nname: b\n")
    told = caught.value.message + capsys.readouterr().err
    assert "name: stands there twice: in lines 1 and 2" in told


def test_yaml_is_read_in_one_place() -> None:
    readers = set()
    for package in (llmgw, llmgw_agent, llmgw_tui):
        for path in Path(package.__path__[0]).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                reads = isinstance(node, ast.Attribute) and _reads(node)
                named = isinstance(node, ast.ImportFrom) and node.module == "yaml"
                if reads or named:
                    readers.add(path.name)
    assert readers == {"yamltext.py"}


def _reads(node: ast.Attribute) -> bool:
    of_yaml = isinstance(node.value, ast.Name) and node.value.id == "yaml"
    loads = ("load", "safe_load", "full_load", "unsafe_load", "compose", "parse", "scan")
    return of_yaml and (node.attr.endswith("Loader") or node.attr.removesuffix("_all") in loads)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


@given(values)
def test_all_else_reads_as_it_was_written(value: object) -> None:
    assert plain(yaml.safe_dump(value)) == (value, ())
    if value is not None:
        assert plain(to_yaml(value)) == (value, ())
