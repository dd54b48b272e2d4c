from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.errors import Unreadable
from llmgw.model.catalog import Model
from llmgw.model.record import Written
from llmgw.model.settings import Settings
from llmgw.model.written import layered, read_json, read_plain, read_yaml, to_yaml


class Small(Written, kw_only=True, frozen=True):
    name: str
    workers: int = 2
    servers: tuple[str, ...] = ()
    print_ready: bool = False


class Loose(Written, kw_only=True, frozen=True):
    """Takes anything in one place, as a setting's new value does."""

    any: object


def test_an_unknown_field_is_refused_with_its_path_and_the_nearest_name() -> None:
    with pytest.raises(Unreadable) as caught:
        read_yaml("link: {lost_aftr: 3}", Settings, "settings.yaml")
    words = "settings.yaml: link.lost_aftr: no such field; did you mean 'lost_after'?"
    assert caught.value.message == words


def test_an_unknown_field_in_a_list_names_the_place() -> None:
    text = "name: a\nprofiles: [{engine: llamacpp, contxt: 5}]"
    with pytest.raises(Unreadable) as caught:
        read_yaml(text, Model, "m.yaml")
    words = "profiles[0].contxt: no such field; did you mean 'context'?"
    assert words in caught.value.message


def test_a_wrong_type_names_the_path_and_both_types() -> None:
    with pytest.raises(Unreadable) as caught:
        read_yaml("link: {lost_after: soon}", Settings, "f")
    assert caught.value.message == "f: link.lost_after: must be a number, is text"


@pytest.mark.parametrize("text", ["{", "a: [", "\t- x", "!!python/object:os.system {}"])
def test_what_is_not_yaml_or_wants_to_run_code_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(Unreadable) as caught:
        read_yaml(text, Settings, "f")
    assert "\n" not in caught.value.message


DEEP = 1_200
BOMB = "\n".join(
    ["a: &a0 [x, x]", *(f"{chr(98 + n)}: &a{n + 1} [{','.join(9 * [f'*a{n}'])}]" for n in range(9))]
)


@pytest.mark.parametrize(
    "text",
    [
        "[" * DEEP,
        "{a: " * DEEP,
        "- " * DEEP,
        f"name: {'9' * 5000}",
        f"name: {'1' * 400}e400",
        "name: 2026-99-99",
        "name: &a [*a]",
        "&a [*a]",
        BOMB,
        f"{BOMB}\nname: *a9",
        f"{BOMB}\nname: x\nprofiles: *a9",
    ],
)
@pytest.mark.parametrize("type_", [Model, Settings, Loose])
def test_hostile_yaml_is_refused_in_one_line(text: str, type_: type) -> None:
    with pytest.raises(Unreadable) as caught:
        read_yaml(text, type_, "f")
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 1500


@pytest.mark.parametrize("text", ["[" * DEEP, '{"any": ' * DEEP, '{"any": ' + "[" * DEEP])
@pytest.mark.parametrize("type_", [Model, Loose])
def test_json_of_too_many_levels_is_refused_in_one_line(text: str, type_: type) -> None:
    with pytest.raises(Unreadable) as caught:
        read_json(text, type_, "f")
    assert "\n" not in caught.value.message


@given(st.text(max_size=60))
def test_no_text_makes_the_readers_raise_anything_but_unreadable(text: str) -> None:
    for read in (read_yaml, read_json):
        with suppress(Unreadable):
            read(text, Settings, "f")


def test_what_is_written_as_yaml_reads_back_the_same() -> None:
    assert read_yaml(to_yaml(Settings()), Settings, "f") == Settings()


def _layered(flags: dict[str, object], environ: dict[str, str], text: str | None) -> Small:
    return layered(Small, flags=flags, environ=environ, file=Path("s.yaml"), file_text=text)


def test_a_flag_beats_a_variable_beats_the_file_beats_the_default() -> None:
    text = "name: file\nworkers: 3"
    environ = {"LLMGW_NAME": "variable", "LLMGW_WORKERS": "4"}
    assert _layered({}, {}, "name: file").workers == 2
    assert _layered({}, {}, text).workers == 3
    assert _layered({}, environ, text).workers == 4
    assert _layered({"workers": 5}, environ, text).workers == 5
    assert _layered({"workers": None}, environ, text).name == "variable"


def test_lists_and_truths_can_stand_in_variables() -> None:
    environ = {"LLMGW_NAME": "n", "LLMGW_SERVERS": "a:1,b:2", "LLMGW_PRINT_READY": "true"}
    small = _layered({}, environ, None)
    assert small.servers == ("a:1", "b:2")
    assert small.print_ready is True


def test_each_source_names_itself_in_its_errors() -> None:
    with pytest.raises(Unreadable, match="LLMGW_WORKERS"):
        _layered({"name": "n"}, {"LLMGW_WORKERS": "many"}, None)
    with pytest.raises(Unreadable, match=r"s\.yaml: wrkers: no such field"):
        _layered({"name": "n"}, {}, "wrkers: 2")
    with pytest.raises(Unreadable, match="command line"):
        _layered({}, {}, None)


def test_a_required_field_may_come_from_a_flag_when_the_file_leaves_it_out() -> None:
    assert _layered({"name": "n"}, {}, "workers: 3").workers == 3


def test_a_file_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(Unreadable, match="must be a mapping"):
        _layered({"name": "n"}, {}, "- a")


class Bounded(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=3)] = "a"
    code: Annotated[str, msgspec.Meta(min_length=2)] = "ab"
    many: Annotated[tuple[int, ...], msgspec.Meta(max_length=2)] = ()
    count: Annotated[int, msgspec.Meta(ge=0, le=9)] = 1
    share: Annotated[float, msgspec.Meta(gt=0, lt=1.5)] = 1.0


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"name": "abcd"}, "f: name: has more than 3 characters"),
        ({"name": ""}, "f: name: must not be empty"),
        ({"code": "a"}, "f: code: has fewer than 2 characters"),
        ({"many": [1, 2, 3]}, "f: many: has more than 2 items"),
        ({"count": -1}, "f: count: must be at least 0"),
        ({"count": 10}, "f: count: must be at most 9"),
        ({"share": 0}, "f: share: must be more than 0"),
        ({"share": 1.5}, "f: share: must be less than 1.5"),
        ({"share": "x"}, "f: share: must be a number, is text"),
    ],
)
def test_what_is_out_of_its_bounds_is_said_in_plain_words(
    value: dict[str, object], words: str
) -> None:
    with pytest.raises(Unreadable) as caught:
        read_plain(value, Bounded, "f")
    assert caught.value.message == words
