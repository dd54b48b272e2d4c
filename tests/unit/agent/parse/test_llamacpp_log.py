"""What llama.cpp computes on, read from its own start-up output."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_agent.parse.llamacpp_log import back_end_of, computes_on_gpu, read_compute

FIXTURES = Path(__file__).parents[3] / "fixtures"
MIB = 1 << 20


def lines(name: str) -> list[str]:
    return (FIXTURES / name).read_text(errors="replace").splitlines()


def test_offloaded_layers_without_a_gpu_buffer_are_not_believed():
    report = read_compute(lines("llama-server/start-lv4.log"))
    assert report is not None
    assert report.back_end == "CPU"
    assert (report.layers_offloaded, report.layers) == (0, 3)
    assert [device.name for device in report.devices] == ["AMX", "CPU_Mapped"]
    assert report.devices[0].model_bytes == round(9.31 * MIB)
    assert report.devices[0].description == "Intel(R) Xeon(R) Processor"
    assert computes_on_gpu(report) is False


@pytest.mark.parametrize(
    "name",
    [
        "llama-server/start-lv4-device-none-keyed.log",
        "llama-server/start-lv4-b10068-device-none.log",
    ],
)
def test_a_replica_on_the_cpu_has_its_buffers_there(name: str):
    report = read_compute(lines(name))
    assert report is not None
    assert (report.back_end, report.layers_offloaded, report.layers) == ("CPU", 0, 3)
    assert [(d.name, d.description) for d in report.devices] == [("CPU_Mapped", "AMD EPYC")]


def test_a_build_without_gpus_speaks_of_buffers_alone():
    report = read_compute(lines("llama-server/start-lv4-xllamacpp-11549.log"))
    assert report is not None
    assert (report.back_end, report.layers_offloaded, report.layers) == ("CPU", None, None)
    assert [(d.name, d.description) for d in report.devices] == [("CPU_Mapped", "AMD EPYC")]
    assert computes_on_gpu(report) is False


def test_weights_that_were_repacked_for_the_processor_lie_on_it():
    report = read_compute(
        [
            "0.01.936.811 I load_tensors:   CPU_Mapped model buffer size =   235.16 MiB",
            "0.01.936.868 I load_tensors:   CPU_REPACK model buffer size =    12.66 MiB",
        ]
    )
    assert report is not None
    assert report.back_end == "CPU"
    assert {d.name: d.back_end for d in report.devices} == {
        "CPU_Mapped": "CPU",
        "CPU_REPACK": "CPU",
    }
    assert computes_on_gpu(report) is False


def test_a_failed_cuda_start_is_the_cpu_whatever_is_said_to_be_offloaded():
    report = read_compute(lines("llama.cpp/cuda-init-failed-13of33.txt"))
    assert report is not None
    assert (report.back_end, report.layers_offloaded, report.layers) == ("CPU", 0, 33)
    assert computes_on_gpu(report) is False


def test_the_old_format_names_card_size_and_layers():
    report = read_compute(lines("llama.cpp/cuda-62of62-2025.txt"))
    assert report is not None
    assert (report.back_end, report.layers_offloaded, report.layers) == ("CUDA", 62, 62)
    card = {device.name: device for device in report.devices}["CUDA0"]
    assert card.model_bytes == round(17284.05 * MIB)
    assert card.description == "NVIDIA RTX A6000"
    assert computes_on_gpu(report) is True


def test_a_key_value_cache_is_no_model_buffer():
    report = read_compute(lines("llama.cpp/cuda-62of62-2025.txt"))
    assert report is not None
    assert [device.name for device in report.devices] == ["CPU", "CUDA0"]


@pytest.mark.parametrize(
    ("name", "layers", "size"),
    [
        ("llama.cpp/vulkan-29of29.txt", 29, round(604.15 * MIB)),
        ("llama-server/start-lv4-vulkan-software.log", 3, round(0.38 * MIB)),
        ("llama-server/start-lv4-b10068-vulkan-software.log", 3, round(0.38 * MIB)),
    ],
)
def test_vulkan_buffers_count_as_a_gpu(name: str, layers: int, size: int):
    report = read_compute(lines(name))
    assert report is not None
    assert (report.back_end, report.layers_offloaded, report.layers) == ("Vulkan", layers, layers)
    assert {d.name: d.model_bytes for d in report.devices}["Vulkan0"] == size
    assert computes_on_gpu(report) is True


def test_a_description_may_hold_brackets():
    report = read_compute(lines("llama-server/start-lv4-vulkan-software.log"))
    assert report is not None
    names = {device.name: device.description for device in report.devices}
    assert names["Vulkan0"] == "llvmpipe (LLVM 15.0.6, 256 bits)"


def test_nothing_offloaded_and_no_buffers_is_no_gpu():
    report = read_compute(lines("llama.cpp/vulkan-0of36.txt"))
    assert report is not None
    assert (report.back_end, report.layers_offloaded, report.layers) == (None, 0, 36)
    assert computes_on_gpu(report) is False


@pytest.mark.parametrize(
    "name",
    [
        "llama-server/start-default-verbosity.log",
        "llama.cpp/server-ready-lines.txt",
        "llama.cpp/server-start-4070s-2025.txt",
        "llama-server/port-in-use.log",
    ],
)
def test_output_that_says_nothing_of_buffers_gives_no_report(name: str):
    assert read_compute(lines(name)) is None


def test_layers_said_to_be_offloaded_without_any_buffer_line_prove_nothing():
    report = read_compute(["load_tensors: offloaded 33/33 layers to GPU"])
    assert report is not None
    assert report.layers_offloaded is None
    assert computes_on_gpu(report) is None


def test_a_buffer_whose_size_is_not_told_leaves_open_what_is_computed_on():
    text = [
        "load_tensors: offloaded 29/29 layers to GPU",
        "     Vulkan0 model buffer size = N/A MiB",
        "  CPU_Mapped model buffer size =   157.65 MiB",
    ]
    report = read_compute(text)
    assert report is not None
    assert (report.back_end, report.layers_offloaded, report.layers) == (None, None, 29)
    assert computes_on_gpu(report) is None


def test_a_fitting_pass_is_not_the_load():
    once = lines("llama.cpp/vulkan-29of29.txt")
    fitting = [line.replace("604.15", "0.00").replace("157.65", "0.00") for line in once]
    assert read_compute([*fitting, *once]) == read_compute(once)


def test_a_draft_model_that_loads_later_does_not_replace_the_model():
    model = [
        "load_tensors: loading model tensors, this can take a while...",
        "load_tensors: offloaded 33/33 layers to GPU",
        "load_tensors:      CUDA0 model buffer size =  4000.00 MiB",
    ]
    draft = [
        "load_tensors: loading model tensors, this can take a while...",
        "load_tensors: offloaded 5/5 layers to GPU",
        "load_tensors:      CUDA1 model buffer size =   400.00 MiB",
    ]
    report = read_compute([*model, *draft])
    assert report is not None
    assert (report.layers, [d.name for d in report.devices]) == (33, ["CUDA0"])


def test_a_model_in_several_files_is_the_sum_of_its_buffers():
    report = read_compute(
        [
            "load_tensors:   CPU_Mapped model buffer size =   100.00 MiB",
            "load_tensors:   CPU_Mapped model buffer size =    50.00 MiB",
        ]
    )
    assert report is not None
    assert [d.model_bytes for d in report.devices] == [150 * MIB]
    assert report.layers_offloaded is None


@pytest.mark.parametrize(
    ("buffer", "back_end"),
    [
        ("CUDA0", "CUDA"),
        ("CUDA0_Split", "CUDA"),
        ("CUDA_Host", "CPU"),
        ("Vulkan_Host", "CPU"),
        ("CPU_REPACK", "CPU"),
        ("AMX", "CPU"),
        ("ROCm1", "ROCm"),
        ("MTL0_Mapped", "Metal"),
    ],
)
def test_a_buffer_names_its_back_end(buffer: str, back_end: str):
    assert back_end_of(buffer) == back_end


@given(st.lists(st.text(max_size=200), max_size=20))
def test_no_text_makes_it_raise(text: list[str]):
    read_compute(text)


@given(
    st.lists(
        st.from_regex(
            r"(load_tensors: )?(offloaded [0-9]{1,30}/[0-9]{1,30} layers to GPU"
            r"|CUDA[0-9] (model )?buffer size = [0-9]{1,400}(\.[0-9]{1,9})? MiB)",
            fullmatch=True,
        ),
        max_size=8,
    )
)
def test_no_number_makes_it_raise(text: list[str]):
    report = read_compute(text)
    assert report is None or computes_on_gpu(report) in {True, False, None}
