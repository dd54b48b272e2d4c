"""Every mistake of what is written is told at once: names, shapes, what is missing, meaning."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.errors import Unreadable
from llmgw.model.catalog import Adapter, Model, PackageRef, PackageSource, Profile
from llmgw.model.catalog_check import check_model
from llmgw.model.check import check_settings
from llmgw.model.faulty import SHOWN, Faulty
from llmgw.model.misfits import MOST, misfits
from llmgw.model.record import Problem, Written
from llmgw.model.settings import EngineBuild, EngineOrder, Settings
from llmgw.model.unread import UNREAD, NotRead, Unread, each
from llmgw.model.written import read_json, read_yaml

SHA = "a" * 64
PACKAGE = {"name": "w", "version": "1", "sha256": SHA}
SOURCES: tuple[dict[str, Any], ...] = (
    {
        "kind": "package",
        "packages": [PACKAGE],
        "parts": ["a/b"],
        "file": "x.gguf",
        "sha256": SHA,
        "size_bytes": 5,
    },
    {"kind": "hub", "repository": "a/b", "revision": "main", "files": ["*.safetensors"]},
    {"kind": "url", "url": "https://example.org/x", "sha256": SHA},
    {"kind": "path", "path": "/srv/x.gguf"},
    {"kind": "mirror", "name": "x"},
)
PROFILE: dict[str, Any] = {
    "name": "default",
    "engine": "vllm",
    "engine_version": "1.0",
    "device_classes": ["h100-80g"],
    "gpus": 8,
    "tensor_parallel": 4,
    "pipeline_parallel": 2,
    "nodes": 1,
    "fabric": "ib0",
    "min_memory_gb": 10.0,
    "cpu_cores": 4,
    "disk_gb": 5.0,
    "context": 4096,
    "concurrency": 4,
    "replicas": 1,
    "max_replicas": 2,
    "scaling": {
        "in_flight": 4,
        "queued": 2,
        "tokens_per_second": 5.0,
        "window": 1.0,
        "down_window": 2.0,
        "idle_stop": 60.0,
    },
    "node_selector": {"rack": "a"},
    "priority": 1,
    "arguments": ["--x"],
    "kv_events": True,
    "ready_timeout": 60.0,
}
MODELS: tuple[dict[str, Any], ...] = tuple(
    {
        "name": "m",
        "source": source,
        "profiles": [PROFILE, {"name": "cpu", "engine": "llamacpp", "min_memory_gb": 1.0}],
        "adapters": [{"name": "a", "source": source}],
        "allow_pickle": False,
        "roll_when_stale": True,
        "disconnect": {"policy": "replace", "after": 5.0, "on_return": "better"},
        "generation": 1,
    }
    for source in SOURCES
)
"""All fields said, and all of them sound."""


def told(text: str) -> list[tuple[str, str]]:
    with pytest.raises(Faulty) as caught:
        read_yaml(text, Model, "m.yaml", meaning=check_model)
    return [(one.path, one.words) for one in caught.value.problems]


def test_five_mistakes_of_a_file_are_five_problems():
    text = """
        name: "  x"
        sorce: {kind: path, path: /x}
        profiles:
          - enigne: vllm
            gpus: two
            context: 0
          - engine: simulated
            replicas: -1
    """
    assert told(text) == [
        ("sorce", "no such field; did you mean 'source'?"),
        ("profiles[0].enigne", "no such field; did you mean 'engine'?"),
        ("profiles[0].gpus", "must be a whole number, is text"),
        ("name", "must not be empty or begin or end with a space"),
        ("profiles[0].context", "0 is not between 1 and 1e+08"),
        ("profiles[1].name", "'default' is there twice"),
        ("profiles[1].replicas", "-1 is not between 0 and 10000"),
    ]


def test_what_is_missing_is_told_where_it_belongs():
    assert told("profiles: [{gpus: 1}]\nsource: {url: 'https://h/x'}") == [
        ("profiles[0].engine", "is missing"),
        ("source.kind", "is missing: one of hub, mirror, package, path, url"),
        ("name", "is missing"),
    ]


def test_a_kind_of_source_that_is_none_is_told_with_the_nearest():
    said = dict(told("name: x\nprofiles: [{engine: simulated}]\nsource: {kind: ulr, url: x}"))
    assert said["source.kind"].endswith("did you mean 'url'?")


def test_a_source_with_a_mistyped_field_is_judged_for_all_its_others():
    source = {"kind": "url", "url": "ftp://h/x", "sha": "12", "sha256": 5}
    model = {"name": "x", "profiles": [{"engine": "simulated"}], "source": source}
    assert [path for path, _ in told(msgspec.json.encode(model).decode())] == [
        "source.sha",
        "source.sha256",
        "source.url",
    ]


def test_an_engine_that_is_none_is_told_with_the_nearest():
    model = Model(name="x", profiles=(Profile(engine="simlated"),))
    words = next(one.words for one in check_model(model) if one.path == "profiles[0].engine")
    assert words.endswith("; did you mean 'simulated'?")


def test_json_is_told_as_yaml_is():
    body = b'{"nam": "x", "profiles": [{"engine": 5}]}'
    with pytest.raises(Faulty) as caught:
        read_json(body, Model, "body", meaning=check_model)
    assert [one.path for one in caught.value.problems] == ["nam", "profiles[0].engine"]


def test_json_that_ends_in_the_middle_is_no_json_whatever_came_before():
    with pytest.raises(Unreadable, match="body: not JSON"):
        read_json(b'{"nam": 5, ', Model, "body", meaning=check_model)


@pytest.mark.parametrize("value", [[], "x", 5, None])
def test_what_is_no_mapping_is_one_problem(value: object):
    _, problems = misfits(value, Model)
    (only,) = problems
    assert only.path == ""
    assert only.words.startswith("must be a mapping, is ")


def test_an_endless_list_of_mistakes_has_an_end():
    profiles = [{"engine": "simulated", "x": 1}] * 1000
    _, problems = misfits({"name": "x", "profiles": profiles}, Model)
    assert len(problems) == MOST
    error = Faulty("f", problems)
    assert len(error.problems) == MOST
    assert error.message.count("no such field") == SHOWN
    assert error.message.endswith(f"and {MOST - SHOWN} more")


def test_a_name_that_others_wrote_stays_in_one_line_of_bounded_length():
    _, problems = misfits({"a\nb\x1b[2J" + "c" * 500: 1, 7: 2}, Model)
    assert problems[0].path.isprintable()
    assert len(problems[0].path) < 70
    assert problems[1].path == "7"


class Tree(Written, frozen=True, kw_only=True):
    name: str
    below: "dict[str, Tree]" = msgspec.field(default_factory=dict)


def test_mappings_of_records_are_walked_too():
    _, problems = misfits({"name": "a", "below": {"b": {"nme": 1}, "c": {}}}, Tree)
    assert [(one.path, one.words) for one in problems] == [
        ("below.b.nme", "no such field; did you mean 'name'?"),
        ("below.c.name", "is missing"),
    ]


# -- what can't be read is judged by no rule -----------------------------------------------------


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every value in a tree of plain values."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def put(value: Any, path: tuple[Any, ...], new: object) -> Any:
    if not path:
        return new
    key, *rest = path
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[key] = put(value[key], tuple(rest), new)
    return changed


def shown(path: tuple[Any, ...]) -> str:
    parts = (f"[{one}]" if isinstance(one, int) else f".{one}" for one in path)
    return "".join(parts).removeprefix(".")


BAD = 3 + 4j
"""Fits no type of any field."""


@pytest.mark.parametrize("model", MODELS, ids=[str(one["source"]["kind"]) for one in MODELS])
def test_whatever_can_not_be_read_is_the_only_problem_of_a_sound_model(model: dict[str, Any]):
    assert misfits(model, Model)[1] == ()
    assert check_model(msgspec.convert(model, Model)) == ()
    for path in places(model):
        read, problems = misfits(put(model, path, BAD), Model)
        kind = path[-1] == "kind"
        assert [one.path for one in problems] == [shown(path)], path
        found = check_model(read)
        assert found == (), f"{path}: {found}"
        assert kind or problems[0].words.startswith("must be "), problems


SETTINGS: dict[str, Any] = msgspec.to_builtins(
    msgspec.structs.replace(
        Settings(),
        engines={
            "llamacpp": EngineOrder(
                builds=(
                    EngineBuild(
                        version="1",
                        program="bin/x",
                        libraries=("lib",),
                        packages=(PackageRef(name="w", version="1", sha256=SHA),),
                    ),
                )
            )
        },
    )
)


def test_whatever_can_not_be_read_is_the_only_problem_of_sound_settings():
    assert check_settings(msgspec.convert(SETTINGS, Settings)) == ()
    for path in places(SETTINGS):
        read, problems = misfits(put(SETTINGS, path, BAD), Settings)
        assert [one.path for one in problems] == [shown(path)], path
        assert check_settings(read) == (), path


WRONG = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.floats(), st.text(max_size=5), st.just(BAD)
)


@given(st.data())
def test_a_problem_of_the_meaning_holds_whatever_stands_where_nothing_could_be_read(
    data: st.DataObject,
):
    """A rule that is told of a half-read model finds the same in every whole one that it may be."""
    whole = data.draw(st.sampled_from(MODELS))
    for path in data.draw(st.lists(st.sampled_from(list(places(PROFILE))), max_size=4)):
        if len(path) == 1:
            whole = put(whole, ("profiles", 0, *path), data.draw(WRONG))
    bad = data.draw(st.sampled_from([one for one in places(PROFILE) if len(one) == 1]))
    _, problems = misfits(whole, Model)
    if problems:
        return
    sound = check_model(msgspec.convert(whole, Model))
    read, _ = misfits(put(whole, ("profiles", 0, *bad), BAD), Model)
    assert set(check_model(read)) <= set(sound)


@given(st.recursive(WRONG, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_no_value_makes_it_fail(value: object):
    read, problems = misfits({"name": "x", "profiles": [value], "source": value}, Model)
    assert problems or isinstance(read, Model)
    with pytest.raises(NotRead) if read is UNREAD else _nothing():
        check_model(read)


def _nothing() -> Any:
    from contextlib import nullcontext

    return nullcontext()


def test_a_rule_says_what_it_found_before_it_looked_at_what_could_not_be_read():
    def rule(number: Any) -> Iterator[Problem]:
        yield Problem(path="a", words="b")
        if number < 5:
            yield Problem(path="c", words="d")

    assert [one.path for one in each(rule(UNREAD), rule(1))] == ["a", "a", "c"]


def test_a_record_of_which_a_part_is_unread_keeps_all_others():
    read, _ = misfits({"name": "a", "source": {**SOURCES[0], "parts": 5}}, Adapter)
    assert isinstance(read.source, PackageSource)
    assert isinstance(read.source.parts, Unread)
    assert read.source.file == "x.gguf"
