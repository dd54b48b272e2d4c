import msgspec
import pytest

from llmgw.local import demo_model
from llmgw.model.catalog import Model, PackageRef, PathSource, Profile, UrlSource
from llmgw.model.catalog_check import check_model
from llmgw.model.check import check_settings, fingerprint
from llmgw.model.settings import (
    ClusterSettings,
    DiscoverySettings,
    EngineBuild,
    EngineOrder,
    LinkSettings,
    PrometheusSettings,
    Settings,
)


def paths(model: Model) -> list[str]:
    return [problem.path for problem in check_model(model)]


def model(**profile: object) -> Model:
    fields = {"engine": "llamacpp", "min_memory_gb": 1.0, **profile}
    return Model(
        name="m",
        source=PathSource(path="/m.gguf"),
        profiles=(msgspec.convert(fields, Profile),),
    )


def test_the_shipped_models_and_settings_have_no_problem() -> None:
    assert check_model(demo_model.real()) == ()
    assert check_model(demo_model.simulated()) == ()
    assert check_settings(Settings()) == ()


def test_every_problem_is_told_at_once() -> None:
    bad = Model(
        name=" ",
        source=UrlSource(url="ftp://x/y.bin", sha256="12"),
        profiles=(
            Profile(engine="ollama", gpus=-1, context=0, replicas=3, max_replicas=1),
            Profile(engine="llamacpp"),
        ),
    )
    found = paths(bad)
    for path in (
        "name",
        "source.url",
        "source.sha256",
        "profiles[0].engine",
        "profiles[0].gpus",
        "profiles[0].context",
        "profiles[0].max_replicas",
        "profiles[1].name",
        "profiles[1].min_memory_gb",
    ):
        assert path in found


def test_a_model_on_the_cpu_must_say_how_much_memory_it_needs() -> None:
    assert paths(model(min_memory_gb=None)) == ["profiles[0].min_memory_gb"]
    assert paths(model(min_memory_gb=None, gpus=1)) == []


def test_a_mig_class_takes_one_instance() -> None:
    assert paths(model(device_classes=["a100-80g-mig-3g.40gb"], gpus=1)) == []
    assert paths(model(device_classes=["a100-80g-mig-3g.40gb"], gpus=2)) == ["profiles[0].gpus"]


def test_parallelism_must_use_the_devices_that_are_asked_for() -> None:
    assert paths(model(gpus=4, tensor_parallel=4)) == []
    two = model(engine="vllm", gpus=4, nodes=2, tensor_parallel=4, pipeline_parallel=2)
    assert paths(two) == []
    assert paths(model(gpus=4, tensor_parallel=8)) == ["profiles[0].gpus"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_numbers_that_are_none_are_refused(value: float) -> None:
    assert paths(model(min_memory_gb=value)) == ["profiles[0].min_memory_gb"]


def test_a_pickle_is_refused_unless_it_is_let_in_on_purpose() -> None:
    source = UrlSource(url="https://host/m.PT")
    pickled = Model(name="m", source=source, profiles=model().profiles)
    assert paths(pickled) == ["source.url"]
    assert paths(msgspec.structs.replace(pickled, allow_pickle=True)) == []


def test_lost_after_cannot_be_shorter_than_three_heartbeats() -> None:
    bad = Settings(link=LinkSettings(heartbeat_interval=5.0, lost_after=10.0))
    assert [p.path for p in check_settings(bad)] == ["link.lost_after"]


def test_a_cluster_name_is_a_word() -> None:
    bad = Settings(cluster=ClusterSettings(name="My Cluster/"))
    assert [p.path for p in check_settings(bad)] == ["cluster.name"]


def test_a_fingerprint_changes_with_what_a_replica_is_started_with_and_nothing_else() -> None:
    one = model()
    same = model(replicas=5, priority=3, node_selector={"rack": "a"})
    other = model(context=4096)
    print_of = [fingerprint(m, m.profiles[0]) for m in (one, same, other)]
    assert print_of[0] == print_of[1] != print_of[2]
    elsewhere = msgspec.structs.replace(one, source=PathSource(path="/n.gguf"))
    assert fingerprint(elsewhere, elsewhere.profiles[0]) != print_of[0]


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"packages": (PackageRef(name="p", version="1", sha256="12"),)}, "packages[0].sha256"),
        ({"program": "/bin/sh"}, ""),
        ({"libraries": ("lib", "../lib")}, ""),
        ({"launcher": "bash"}, "launcher"),
    ],
)
def test_a_build_that_could_bring_anything_else_is_refused(
    changed: dict[str, object], problem: str
) -> None:
    build = msgspec.structs.replace(EngineBuild(version="1"), **changed)
    found = check_settings(Settings(engines={"llamacpp": EngineOrder(builds=(build,))}))
    where = "engines.llamacpp.builds[0]"
    assert [one.path for one in found] == [f"{where}.{problem}" if problem else where]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://127.0.0.1:9400/metrics",
        "https://prometheus.example/prometheus",
        "http://[::1]:9400/metrics",
    ],
)
def test_an_address_that_agents_or_the_control_plane_ask_may_be_written(url):
    settings = Settings(
        discovery=DiscoverySettings(dcgm_exporter=url), prometheus=PrometheusSettings(url=url)
    )
    assert check_settings(settings) == ()


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:9400",
        "ftp://host/metrics",
        "http://",
        "http:///metrics",
        "http://host:99999/metrics",
        "http://[::1/metrics",
        "http://ho st/metrics",
        "file:///etc/shadow",
    ],
)
def test_what_is_no_address_is_refused_with_its_path(url):
    settings = Settings(
        discovery=DiscoverySettings(dcgm_exporter=url), prometheus=PrometheusSettings(url=url)
    )
    found = check_settings(settings)
    assert [problem.path for problem in found] == ["discovery.dcgm_exporter", "prometheus.url"]
    assert all("address" in problem.words for problem in found)


@pytest.mark.parametrize("url", ["http://host:9090/?a=b", "http://host#top", "http://host/x?"])
def test_what_would_swallow_the_path_behind_it_is_refused(url):
    (problem,) = check_settings(Settings(prometheus=PrometheusSettings(url=url)))
    assert problem.path == "prometheus.url"
    assert "?query" in problem.words


@pytest.mark.parametrize(
    "url", ["http://user:secret@host/metrics", "https://token@host", "ftp://u:secret@host"]
)
def test_an_address_with_a_password_is_refused_without_repeating_it(url):
    problems = check_settings(Settings(prometheus=PrometheusSettings(url=url)))
    (problem,) = problems
    assert problem.path == "prometheus.url"
    assert "password" in problem.words
    assert "secret" not in problem.words
    assert "token" not in problem.words
