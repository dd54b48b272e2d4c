"""Looking into directories of weights: only whole models count, whatever their names say."""

import json
import os
import sys
from pathlib import Path

import pytest

from llmgw.base.errors import NotFound, TimedOut, Unreadable
from llmgw_agent.host.disk import (
    LookAt,
    Looked,
    RemoveSets,
    Sets,
    SetsIn,
    SetsRemoved,
    Space,
    SpaceOf,
)
from llmgw_agent.host.helper import HelperProcess
from llmgw_agent.weights.scan import sets_below, whole_safetensors
from tests.only import only

FIXTURES = Path(__file__).parents[2] / "fixtures"
GGUF = (FIXTURES / "gguf" / "tiny-v3.gguf").read_bytes()
TENSORS = (FIXTURES / "safetensors" / "tiny.safetensors").read_bytes()
ENVIRON = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def names(directory: Path) -> list[str]:
    return [str(Path(held.path).relative_to(directory)) for held in sets_below(directory)]


def test_a_gguf_file_is_a_model_and_a_file_that_only_ends_so_is_not(tmp_path):
    put(tmp_path / "a/tiny.gguf", GGUF)
    put(tmp_path / "a/page.gguf", b"<!DOCTYPE html>")
    put(tmp_path / "a/empty.gguf", b"")
    put(tmp_path / "a/tiny.gguf.part", GGUF)
    put(tmp_path / "a/notes.txt", b"x")
    held = only(sets_below(tmp_path))
    assert (held.path, held.size_bytes, held.ours) == (
        str(tmp_path / "a/tiny.gguf"),
        len(GGUF),
        False,
    )


def test_splits_are_one_model_once_all_are_there(tmp_path):
    for part in (1, 2):
        put(tmp_path / f"big-{part:05}-of-00003.gguf", GGUF)
    assert names(tmp_path) == []
    put(tmp_path / "big-00003-of-00003.gguf", GGUF)
    held = only(sets_below(tmp_path))
    assert held.path == str(tmp_path / "big-00001-of-00003.gguf")
    assert held.size_bytes == 3 * len(GGUF)


def test_safetensors_are_whole_when_they_have_the_size_of_their_header(tmp_path):
    file = put(tmp_path / "m/model.safetensors", TENSORS)
    assert whole_safetensors(file) == len(TENSORS)
    assert names(tmp_path) == ["m"]
    file.write_bytes(TENSORS[:-1])
    assert names(tmp_path) == []


def test_a_sharded_model_counts_when_each_file_of_its_index_is_whole(tmp_path):
    index = {"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}
    put(tmp_path / "m/model.safetensors.index.json", json.dumps(index).encode())
    put(tmp_path / "m/one.safetensors", TENSORS)
    assert names(tmp_path) == []
    put(tmp_path / "m/two.safetensors", TENSORS[:100])
    assert names(tmp_path) == []
    put(tmp_path / "m/two.safetensors", TENSORS)
    held = only(sets_below(tmp_path))
    assert (held.path, held.size_bytes) == (str(tmp_path / "m"), 2 * len(TENSORS))


def test_shards_without_an_index_count_when_all_that_their_names_count_are_there(tmp_path):
    put(tmp_path / "m/model-00001-of-00002.safetensors", TENSORS)
    assert names(tmp_path) == []
    put(tmp_path / "m/model-00002-of-00002.safetensors", TENSORS)
    held = only(sets_below(tmp_path))
    assert (held.path, held.size_bytes) == (str(tmp_path / "m"), 2 * len(TENSORS))


def test_of_two_indexes_in_one_directory_one_that_is_whole_is_a_model(tmp_path):
    for name, file in (("consolidated", "gone"), ("model", "one")):
        index = {"weight_map": {"a": f"{file}.safetensors"}}
        put(tmp_path / f"m/{name}.safetensors.index.json", json.dumps(index).encode())
    put(tmp_path / "m/one.safetensors", TENSORS)
    assert names(tmp_path) == ["m"]


def test_half_of_a_gguf_file_is_no_model_alone_or_as_a_split(tmp_path):
    put(tmp_path / "half.gguf", GGUF[:-1])
    put(tmp_path / "header.gguf", GGUF[:200])
    put(tmp_path / "big-00001-of-00002.gguf", GGUF)
    second = put(tmp_path / "big-00002-of-00002.gguf", GGUF[:-8])
    assert names(tmp_path) == []
    second.write_bytes(GGUF)
    assert names(tmp_path) == ["big-00001-of-00002.gguf"]


def test_a_file_that_did_not_change_is_not_read_again(tmp_path, monkeypatch):
    file = put(tmp_path / "tiny.gguf", GGUF)
    put(tmp_path / "m/model.safetensors", TENSORS)
    assert names(tmp_path) == ["m", "tiny.gguf"]
    monkeypatch.setattr(Path, "open", None)
    assert names(tmp_path) == ["m", "tiny.gguf"]
    monkeypatch.undo()
    file.write_bytes(GGUF[:-1])
    assert names(tmp_path) == ["m"]


@pytest.mark.parametrize("index", [b"{", b"[]", b'{"weight_map": 5}', b'{"weight_map": {"a": 1}}'])
def test_an_index_that_can_not_be_read_is_no_model(tmp_path, index):
    put(tmp_path / "m/model.safetensors.index.json", index)
    put(tmp_path / "m/one.safetensors", TENSORS)
    assert names(tmp_path) == []


def test_hidden_and_very_deep_directories_are_left_alone(tmp_path):
    put(tmp_path / ".cache/tiny.gguf", GGUF)
    put(tmp_path / "1/2/3/4/tiny.gguf", GGUF)
    put(tmp_path / "1/2/3/4/5/tiny.gguf", GGUF)
    assert names(tmp_path) == ["1/2/3/4/tiny.gguf"]


def test_a_directory_that_is_not_there_has_no_models(tmp_path):
    assert sets_below(tmp_path / "nowhere") == ()


@pytest.fixture
async def helper():
    process = HelperProcess((sys.executable, "-m", "llmgw_agent.host.disk_side"), environ=ENVIRON)
    yield process
    await process.close()


async def test_the_helper_tells_where_a_directory_is_and_its_space(helper, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    space = await helper.ask(SpaceOf(path=str(tmp_path / "link")), Space, silence=20)
    assert space.real == str((tmp_path / "real").resolve())
    assert space.total_bytes is not None
    assert space.free_bytes is not None
    assert 0 < space.free_bytes <= space.total_bytes
    missing = await helper.ask(SpaceOf(path=str(tmp_path / "gone")), Space, silence=20)
    assert missing == Space()


async def test_the_helper_looks_at_paths_that_a_catalog_names(helper, tmp_path):
    path = put(tmp_path / "tiny.gguf", GGUF)
    assert (await helper.ask(LookAt(path=str(path)), Looked, silence=20)).kind == "gguf"
    put(tmp_path / "m/model.safetensors", TENSORS)
    looked = await helper.ask(LookAt(path=str(tmp_path / "m")), Looked, silence=20)
    assert looked.kind == "safetensors"
    with pytest.raises(NotFound, match="no such file on this node"):
        await helper.ask(LookAt(path=str(tmp_path / "none.gguf")), Looked, silence=20)
    with pytest.raises(Unreadable, match="without a whole set"):
        await helper.ask(LookAt(path=str(tmp_path)), Looked, silence=20)
    pickle = put(tmp_path / "model.bin", b"\x80\x02}q")
    with pytest.raises(Unreadable, match="pickle"):
        await helper.ask(LookAt(path=str(pickle)), Looked, silence=20)


async def test_a_path_that_never_opens_costs_the_helper_alone(helper, tmp_path):
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(TimedOut):
        await helper.ask(LookAt(path=str(tmp_path / "pipe.gguf")), Looked, silence=1.0)
    put(tmp_path / "tiny.gguf", GGUF)
    looked = await helper.ask(LookAt(path=str(tmp_path / "tiny.gguf")), Looked, silence=20)
    assert looked.kind == "gguf"


async def test_the_helper_removes_what_it_may_and_says_what_it_may_not(helper, tmp_path):
    request = RemoveSets(cache=str(tmp_path), names=("../x", "w-" + "0" * 32), in_use=())
    done = await helper.ask(request, SetsRemoved, silence=20)
    assert done.removed == ()
    assert len(done.refused) == 2
    found = await helper.ask(SetsIn(path=str(tmp_path), ours=True), Sets, silence=20)
    assert found.sets == ()
