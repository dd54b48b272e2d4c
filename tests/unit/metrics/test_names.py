"""The table of families: names, units, labels, and the reference that is made from it."""

import re
from pathlib import Path

import pytest

from llmgw.control.metrics.families import FAMILIES
from llmgw.control.metrics.family import COUNTER, GAUGE, HISTOGRAM, Family
from llmgw.control.metrics.reference import reference
from tests.unit.metrics.scraped import BY_NAME

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "metrics.md"

GIVEN_NAMES = {
    "llmgw_node_cpu_utilization_percent",
    "llmgw_gpu_sm_active_percent",
    "llmgw_gpu_sm_occupancy_active_percent",
    "llmgw_gpu_tensor_active_percent",
    "llmgw_gpu_dram_active_percent",
    "llmgw_ib_port_rate_gbps",
}
"""Names that are given from outside, with units that are not base units."""

SUFFIXES = {
    "bytes": "_bytes",
    "bytes/s": "_bytes_per_second",
    "seconds": "_seconds",
    "watts": "_watts",
    "hertz": "_hertz",
    "degrees Celsius": "_celsius",
    "0 to 1": "_ratio",
    "percent": "_percent",
    "Gbit/s": "_gbps",
}
"""The end of a name by its unit."""

REQUIRED = """
    llmgw_build_info llmgw_leader llmgw_leader_term llmgw_replicas llmgw_replicas_wanted
    llmgw_requests_total llmgw_request_duration_seconds llmgw_time_to_first_token_seconds
    llmgw_tokens_total llmgw_requests_in_flight llmgw_request_retries_total
    llmgw_stream_aborts_total llmgw_node_cpu_utilization_percent llmgw_node_cpus
    llmgw_node_load llmgw_node_memory_bytes llmgw_node_memory_used_bytes
    llmgw_node_memory_available_bytes llmgw_shard_cpu_cores llmgw_shard_memory_bytes
    llmgw_certificate_expiry_timestamp_seconds
    llmgw_gpu_sm_active_percent llmgw_gpu_sm_occupancy_active_percent
    llmgw_gpu_tensor_active_percent llmgw_gpu_dram_active_percent
    llmgw_ib_port_active llmgw_ib_port_rate_gbps llmgw_ib_port_counter_total
    llmgw_fabric_master_sm llmgw_fabric_subnet_managers llmgw_fabric_problems
    llmgw_gpu_nvlink_joined llmgw_imex_up
    llmgw_gpu_busy_ratio llmgw_gpu_work_ratio llmgw_gpu_memory_used_bytes llmgw_gpu_power_watts
    llmgw_gpu_power_limit_watts llmgw_gpu_temperature_celsius
    llmgw_gpu_memory_temperature_celsius llmgw_gpu_ecc_errors_total llmgw_gpu_pcie_replays_total
    llmgw_gpu_xid_events_total llmgw_gpu_row_remap_pending llmgw_gpu_row_remap_failed
    llmgw_gpu_nvlink_errors_total llmgw_gpu_throttle_reason llmgw_gpu_sample_missing
    llmgw_node_temperature_celsius llmgw_node_filesystem_bytes llmgw_node_filesystem_free_bytes
    llmgw_devices_unavailable llmgw_imex_channels llmgw_nodes llmgw_devices llmgw_devices_in_use
    llmgw_devices_free llmgw_devices_unhealthy llmgw_devices_busy_ratio
    llmgw_fabric_weights_bytes llmgw_placement_refusals
    llmgw_inter_token_seconds llmgw_refusals_total llmgw_request_errors_total
    llmgw_requests_queued llmgw_queue_wait_seconds llmgw_prefix_decisions_total
    llmgw_fallbacks_total llmgw_keys_over_quota llmgw_gateway_up llmgw_gateway_workers
    llmgw_endpoint_up llmgw_endpoint_requests_in_flight llmgw_endpoint_score
    llmgw_shard_requests_running llmgw_shard_requests_waiting llmgw_shard_cache_used_ratio
"""


@pytest.mark.parametrize("family", FAMILIES, ids=lambda one: one.name)
def test_a_familys_name_says_its_kind_and_unit(family: Family) -> None:
    assert re.fullmatch(r"llmgw_[a-z][a-z0-9_]*[a-z0-9]", family.name)
    assert family.kind in {COUNTER, GAUGE, HISTOGRAM}
    assert family.name.endswith("_total") == (family.kind == COUNTER)
    assert not re.search(r"_(ms|mib|gib|mb|gb|mhz|minutes|hours|milli\w*)(_|$)", family.name)
    if family.name.endswith(("_percent", "_gbps")):
        assert family.name in GIVEN_NAMES
    unit = family.unit.removesuffix(" since the epoch")
    for name, suffix in SUFFIXES.items():
        assert family.name.endswith(suffix) == (unit == name), (suffix, family.unit)
    assert family.name.endswith("_timestamp_seconds") == family.unit.endswith("since the epoch")
    assert family.help.endswith(".")
    assert family.absent
    assert "|" not in family.help + family.absent


@pytest.mark.parametrize("family", FAMILIES, ids=lambda one: one.name)
def test_labels_are_short_words_that_prometheus_does_not_use(family: Family) -> None:
    assert len(set(family.labels)) == len(family.labels)
    for label in family.labels:
        assert re.fullmatch(r"[a-z][a-z_]*", label)
        assert label not in {"le", "quantile", "job", "instance", "key", "token", "request"}


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(FAMILIES)


def test_the_required_names_are_there() -> None:
    assert set(REQUIRED.split()) <= set(BY_NAME)


def test_the_kept_reference_is_what_the_code_says() -> None:
    assert REFERENCE.read_text() == reference(), "run: python docs/generate.py"


def test_the_reference_has_a_row_for_each_family() -> None:
    rows = [line for line in reference().splitlines() if line.startswith("| `llmgw_")]
    assert [row.split("`")[1] for row in rows] == [family.name for family in FAMILIES]
    assert all(row.count("|") == 8 for row in rows)
