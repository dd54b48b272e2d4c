"""What a written model must mean: each rule says where and what."""

from collections.abc import Callable

import msgspec
import pytest

from llmgw.model.catalog import (
    Adapter,
    Disconnect,
    HubSource,
    MirrorSource,
    Model,
    PathSource,
    Profile,
    Scaling,
    Source,
    UrlSource,
)
from llmgw.model.catalog_check import check_model

PATH = PathSource(path="/srv/m.gguf")
GOOD = Model(name="m", source=PATH, profiles=(Profile(engine="llamacpp", min_memory_gb=1),))


def paths(model: Model) -> list[str]:
    return [problem.path for problem in check_model(model)]


def with_profile(**fields: object) -> Model:
    return msgspec.structs.replace(
        GOOD, profiles=(msgspec.structs.replace(GOOD.profiles[0], **fields),)
    )


def test_a_sound_model_has_no_problem() -> None:
    assert check_model(GOOD) == ()


SOURCES: tuple[tuple[Source, list[str]], ...] = (
    (PathSource(path="m.gguf"), ["source.path"]),
    (PathSource(path="/srv/../etc/passwd"), ["source.path"]),
    (PathSource(path="/srv/m\n.gguf"), ["source.path"]),
    (HubSource(repository="org/name", revision="main", files=("*.gguf", "*")), []),
    (HubSource(repository="name"), ["source.repository"]),
    (HubSource(repository="../x/y"), ["source.repository"]),
    (HubSource(repository="org/name", revision="a b"), ["source.revision"]),
    (HubSource(repository="org/name", files=("/etc/*",)), ["source.files[0]"]),
    (HubSource(repository="org/name", files=("*", "a/../b")), ["source.files[1]"]),
    (HubSource(repository="org/name", files=("*.bin",)), ["source.files[0]"]),
    (HubSource(repository="org/name", files=("pytorch_model.p*",)), ["source.files[0]"]),
    (UrlSource(url="https://host/m.gguf"), []),
    (UrlSource(url="https://host/m.bin?download=true"), ["source.url"]),
    (UrlSource(url="file:///m.gguf"), ["source.url"]),
    (MirrorSource(name="qwen"), []),
    (MirrorSource(name=" "), ["source.name"]),
)


@pytest.mark.parametrize(("source", "found"), SOURCES, ids=str)
def test_a_source_says_what_is_wrong_with_it(source: Source, found: list[str]) -> None:
    assert paths(msgspec.structs.replace(GOOD, source=source)) == found
    adapted = msgspec.structs.replace(GOOD, adapters=(Adapter(name="a", source=source),))
    assert paths(adapted) == [f"adapters[0].{path}" for path in found]


@pytest.mark.parametrize("source", [source for source, found in SOURCES if found][8:12])
def test_pickles_are_let_in_on_purpose(source: Source) -> None:
    model = msgspec.structs.replace(GOOD, source=source, allow_pickle=True)
    assert not any("pickle" in one.words for one in check_model(model))


def test_an_adapter_has_a_name_of_its_own() -> None:
    adapters = tuple(Adapter(name=name, source=PATH) for name in ("a", "m", "a", ""))
    found = paths(msgspec.structs.replace(GOOD, adapters=adapters))
    assert found == ["adapters[1].name", "adapters[2].name", "adapters[3].name"]


@pytest.mark.parametrize(
    ("said", "path"),
    [
        (Disconnect(policy="drop"), "disconnect.policy"),
        (Disconnect(on_return="oldest"), "disconnect.on_return"),
        (Disconnect(after=-1), "disconnect.after"),
        (Disconnect(after=float("nan")), "disconnect.after"),
    ],
)
def test_what_becomes_of_a_lost_replica_is_one_of_few(said: Disconnect, path: str) -> None:
    assert paths(msgspec.structs.replace(GOOD, disconnect=said)) == [path]


PROFILES: tuple[tuple[dict[str, object], list[str]], ...] = (
    ({"name": ""}, [".name"]),
    ({"name": "a b"}, [".name"]),
    ({"name": "x" * 64}, [".name"]),
    ({"tensor_parallel": 0, "pipeline_parallel": -1}, [".tensor_parallel", ".pipeline_parallel"]),
    ({"nodes": 2, "gpus": 1}, [".nodes"]),
    ({"nodes": 2, "engine": "vllm"}, [".nodes"]),
    ({"nodes": 2, "engine": "vllm", "gpus": 8}, []),
    ({"fabric": "ib a"}, [".fabric"]),
    ({"kv_events": True}, [".kv_events"]),
    ({"kv_events": True, "engine": "vllm", "gpus": 1}, []),
    ({"device_classes": ("h100-80g", "")}, [".device_classes"]),
    ({"node_selector": {"": "a"}}, [".node_selector"]),
    ({"node_selector": {"rack": "a\x1b[2J"}}, [".node_selector"]),
    ({"node_selector": {"rack": "a 1"}}, []),
    ({"arguments": ("-fa", "on\0")}, [".arguments[1]"]),
    ({"arguments": ("x" * 5000,)}, [".arguments[0]"]),
    ({"arguments": ("x",) * 501}, [".arguments"]),
    ({"scaling": Scaling(idle_stop=60)}, []),
    ({"scaling": Scaling(in_flight=4)}, [".max_replicas"]),
    ({"scaling": Scaling(in_flight=4), "max_replicas": 3}, []),
    ({"scaling": Scaling(in_flight=0), "max_replicas": 3}, [".scaling.in_flight"]),
    ({"scaling": Scaling(queued=-1), "max_replicas": 3}, [".scaling.queued"]),
    (
        {"scaling": Scaling(tokens_per_second=float("inf")), "max_replicas": 3},
        [".scaling.tokens_per_second"],
    ),
    ({"scaling": Scaling(window=-1, down_window=1e9)},
     [".scaling.window", ".scaling.down_window"]),
    ({"scaling": Scaling(idle_stop=0)}, [".scaling.idle_stop"]),
)  # fmt: skip


@pytest.mark.parametrize(("fields", "found"), PROFILES, ids=str)
def test_a_profile_says_what_is_wrong_with_it(fields: dict[str, object], found: list[str]) -> None:
    assert paths(with_profile(**fields)) == [f"profiles[0]{path}" for path in found]


@pytest.mark.parametrize(
    "change",
    [
        lambda one: msgspec.structs.replace(one, generation=-1),
        lambda one: msgspec.structs.replace(one, profiles=()),
        lambda one: msgspec.structs.replace(one, source=None),
        lambda one: msgspec.structs.replace(one, name="x" * 201),
    ],
)
def test_the_whole_is_checked_as_well(change: Callable[[Model], Model]) -> None:
    (problem,) = check_model(change(GOOD))
    assert problem.path in {"generation", "profiles", "source", "name"}
