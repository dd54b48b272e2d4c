"""How much a replica needs, and how fast it is on a CPU."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.model.catalog import Profile
from llmgw.model.shape import AttentionLayers, ModelShape
from llmgw.plan.estimate import (
    RUNTIME_BYTES,
    cache_bytes,
    is_slow,
    least_on_device,
    memory_need,
    read_per_token,
    tokens_per_second,
)

MIB = 1 << 20
ATTENTION = (
    AttentionLayers(layers=3, heads=1, key_length=256, value_length=256),
    AttentionLayers(layers=15, heads=1, key_length=256, value_length=256, window=512),
)
GEMMA = ModelShape(
    format="gguf",
    architecture="gemma3",
    weights_bytes=246_587_904,
    layers=18,
    embedding=640,
    feed_forward=2048,
    vocabulary=262144,
    context=32768,
    attention=ATTENTION,
)
"""The demo's model, as its header says."""


BASE = Profile(engine="llamacpp", context=2048, concurrency=2)


def profile(**more: object) -> Profile:
    return msgspec.structs.replace(BASE, **more)


def known(count: float | None) -> float:
    assert count is not None
    return count


# What llama-server 0.10068.0 says of the demo's model (`-lv 4`), by context of a request and
# requests: KV buffers of full and of sliding layers, output and compute buffer, MiB.
SAID = [
    (512, 1, 1.5 + 7.5, 1.00 + 18.77),
    (2048, 2, 12.0 + 30.0, 2.00 + 20.77),
    (4096, 4, 48.0 + 60.0, 4.00 + 22.77),
    (8192, 8, 192.0 + 120.0, 8.00 + 26.77),
]


@pytest.mark.parametrize(("context", "concurrency", "cache", "compute"), SAID)
def test_an_estimate_is_what_llama_server_allocated(
    context: int, concurrency: int, cache: float, compute: float
) -> None:
    need = memory_need(GEMMA, profile(context=context, concurrency=concurrency), None)
    # The log's line of it: CPU_Mapped model buffer size = 235.16 MiB.
    assert need.weights_bytes == pytest.approx(235.16 * MIB, rel=0.0001)
    assert need.cache_bytes == cache * MIB
    assert need.compute_bytes == pytest.approx(compute * MIB, rel=0.05)
    parts = (need.weights_bytes, need.cache_bytes, need.compute_bytes)
    assert need.total_bytes == sum(known(part) for part in parts)
    assert (need.per_device_bytes, need.devices, need.unknown) == (None, 0, ())


def test_a_cached_number_is_as_large_as_the_arguments_say() -> None:
    plain = cache_bytes(ATTENTION, profile(), 2048, 2)
    for arguments in (("-ctk", "q8_0", "-ctv", "q8_0"), ("--cache-type-k=q8_0", "-ctv", "q8_0")):
        small = cache_bytes(ATTENTION, profile(arguments=arguments), 2048, 2)
        assert small == pytest.approx(plain * 34 / 64, rel=0.001)
    vllm = profile(engine="vllm", arguments=("--kv-cache-dtype", "fp8"))
    assert cache_bytes(ATTENTION[:1], vllm, 2048, 2) == 3 * 512 * 2048 * 2


def test_arguments_that_are_no_type_change_nothing() -> None:
    plain = cache_bytes(ATTENTION, profile(), 2048, 2)
    for arguments in (("-ctk",), ("-ctk", "newest"), ("--cache-type-k=",), ("q8_0", "-ctk")):
        assert cache_bytes(ATTENTION, profile(arguments=arguments), 2048, 2) == plain


def test_a_smaller_batch_keeps_a_smaller_window_and_computes_with_less() -> None:
    whole = memory_need(GEMMA, profile(), None)
    small = memory_need(GEMMA, profile(arguments=("-b", "32", "-ub", "32")), None)
    # A window of 512 and a batch of 32, rounded up to 256 cells: 768 instead of 1024.
    assert known(whole.cache_bytes) - known(small.cache_bytes) == 256 * 2 * 15 * 512 * 2
    assert known(small.compute_bytes) < known(whole.compute_bytes) / 2


def test_less_than_weights_and_what_is_allocated_at_once_can_not_start() -> None:
    assert least_on_device(GEMMA, profile(), None) is None
    need = memory_need(GEMMA, profile(gpus=2), None)
    shared = known(need.weights_bytes) + known(need.cache_bytes)
    assert least_on_device(GEMMA, profile(gpus=2), None) == math.ceil(shared / 2)
    # Where no context is said, llama.cpp takes what there is room for.
    assert least_on_device(GEMMA, profile(gpus=1, context=None), None) == need.weights_bytes
    assert least_on_device(None, profile(gpus=2), 1001) == 501
    assert least_on_device(None, profile(gpus=2), None) is None


def test_vllm_starts_with_room_for_one_request() -> None:
    vllm = profile(engine="vllm", gpus=1, concurrency=256)
    assert least_on_device(GEMMA, vllm, None) == known(GEMMA.weights_bytes) + cache_bytes(
        ATTENTION, vllm, 2048, 1
    )


@pytest.mark.parametrize("text", ["", "x", "-1", "9" * 40, "²"])
def test_a_batch_that_is_no_number_is_the_usual_one(text: str) -> None:
    strange = memory_need(GEMMA, profile(arguments=("-ub", text)), None)
    assert strange == memory_need(GEMMA, profile(), None)


def test_devices_share_weights_and_cache_and_each_has_its_margin() -> None:
    one = memory_need(GEMMA, profile(gpus=1), None)
    two = memory_need(GEMMA, profile(gpus=2), None)
    margin = int(known(two.compute_bytes)) // 2
    shared = known(two.weights_bytes) + known(two.cache_bytes)
    assert two.per_device_bytes == shared // 2 + margin
    assert known(two.per_device_bytes) < known(one.per_device_bytes)
    assert known(one.per_device_bytes) < 2 * known(two.per_device_bytes)
    assert margin > RUNTIME_BYTES


def test_devices_of_all_nodes_share() -> None:
    assert memory_need(GEMMA, profile(gpus=2, nodes=2), None).devices == 4


def test_without_a_header_only_the_weights_are_known() -> None:
    need = memory_need(None, profile(), 1000)
    assert (need.weights_bytes, need.cache_bytes, need.total_bytes) == (1000, None, None)
    assert need.unknown == ("nobody has read the header of its weights: its cache is not known",)


def test_what_is_not_known_is_said() -> None:
    nothing = memory_need(None, profile(), None)
    assert "the size of its weights is not known before they are fetched" in nothing.unknown
    strange = memory_need(ModelShape(format="gguf", architecture="newest"), profile(), 1)
    assert "what newest keeps of a token is not known" in strange.unknown
    without = memory_need(ModelShape(format="gguf", attention=()), profile(context=None), 1)
    assert "neither the profile nor the weights say a context" in without.unknown


def test_without_a_context_the_one_it_was_trained_for_counts() -> None:
    assert memory_need(GEMMA, profile(context=None), None).context == 32768


# WGT-10: the two points imply about 1.07 GB and 8.8 GB read a token.
@pytest.mark.parametrize(("read", "rate", "said"), [(1.07e9, 24.9e9, 14.7), (8.8e9, 41.9e9, 3.2)])
def test_the_cpu_estimate_meets_its_two_points(read: float, rate: float, said: float) -> None:
    assert tokens_per_second(None, int(read), rate) == pytest.approx(said, rel=0.02)


def test_few_cores_read_no_faster_than_each_of_them() -> None:
    whole = tokens_per_second(None, 10**9, 40e9, 12e9, None)
    one = tokens_per_second(None, 10**9, 40e9, 12e9, 1)
    many = tokens_per_second(None, 10**9, 40e9, 12e9, 16)
    assert known(one) < known(whole) == many


@pytest.mark.parametrize(("read", "rate"), [(None, 1e9), (10**9, None), (0, 1e9), (10**9, 0.0)])
def test_a_rate_that_can_not_be_told_is_not_known(read: int | None, rate: float | None) -> None:
    assert tokens_per_second(None, read, rate) is None


def test_a_mixture_reads_the_experts_that_a_token_uses() -> None:
    shape = ModelShape(
        format="gguf",
        weights_bytes=1000,
        embedding_bytes=100,
        expert_bytes=800,
        experts=8,
        experts_used=2,
    )
    assert read_per_token(shape, None) == 1000 - 100 - 600


def test_a_reply_of_more_than_two_minutes_is_slow() -> None:
    assert is_slow(4.1)
    assert not is_slow(4.2)


@given(st.integers(1, 1 << 20), st.integers(1, 512), st.integers(1, 1 << 20), st.integers(1, 512))
def test_more_context_or_more_requests_never_need_less(
    context: int, concurrency: int, more_context: int, more: int
) -> None:
    small = cache_bytes(ATTENTION, profile(), context, concurrency)
    large = cache_bytes(ATTENTION, profile(), context + more_context, concurrency + more)
    assert small <= large
