"""Readers of outside text and bytes that `llmgw parse` does not offer, with texts to garble.

Bytes are texts of as many characters (latin-1). A tree of files is a line a file: path, tab,
content, in which a `|` stands for the end of a line.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from llmgw.formats import gguf_shape, hub_config
from llmgw.formats.gguf import read_gguf
from llmgw.formats.safetensors import LENGTH_BYTES, header_length, read_safetensors
from llmgw_agent.parse.build_features import read_features
from llmgw_agent.parse.cpu_cache import last_cache
from llmgw_agent.parse.engine_metrics import read_engine_metrics
from llmgw_agent.parse.engine_version import version_of
from llmgw_agent.parse.ldd import missing_libraries
from llmgw_agent.parse.llamacpp_causes import SIGILL, cause_of, why_no_gpu
from llmgw_agent.parse.llamacpp_help import read_options
from llmgw_agent.parse.llamacpp_log import read_compute
from llmgw_agent.parse.mounts import mount_of, read_mountinfo
from llmgw_agent.parse.networks import network_of, read_inet6, read_routes
from llmgw_agent.parse.os_release import read_os_release
from llmgw_agent.parse.package_log import read_failure
from llmgw_agent.parse.pci_bus import cards
from llmgw_agent.parse.proc_stat import read_process
from llmgw_agent.parse.tool import Tool
from llmgw_agent.parse.tree import read_tree
from llmgw_agent.parse.weights_head import HEAD_BYTES, kind_of

FIXTURES = Path(__file__).parents[1] / "fixtures"

CONFIG = """{"model_type": "qwen3_moe", "num_hidden_layers": 4, "num_attention_heads": 32,
 "num_key_value_heads": 4, "head_dim": 128, "hidden_size": 2048, "vocab_size": 151936,
 "max_position_embeddings": 40960, "num_experts": 128, "num_experts_per_tok": 8,
 "layer_types": ["full_attention", "sliding_attention", "full_attention", "linear_attention"],
 "sliding_window": 4096, "kv_lora_rank": null}
"""

MOUNTINFO = r"""22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 22 0:26 / /srv/models rw - nfs4 filer:/models rw,vers=4.2
31 30 0:27 / /srv/models/lustre rw master:5 propagate_from:2 - lustre mgs@tcp:/fs rw
32 22 0:28 / /mnt/with\040blank rw - beegfs beegfs_nodev rw
"""
PROCESS = """\
42 (llama-server (1)) S 1 40 39 0 -1 4194560 2123 0 3 0 117 25 0 0 20 0 9 0 88112 812646400 51234 \
18446744073709551615 1 1 0 0 0 0 0 4096 16387 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0
"""
ROUTES = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""
INET6 = """\
fe8000000000000000fc00fffe000001 04 40 20 80     eth0
fd000000000000000000000000000002 04 40 00 82     eth0
"""
OS_RELEASE = """\
PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"
# of a machine
NAME='Some "OS"'
ID=debian
"""
CACHE = """\
index0/size\t32K
index0/shared_cpu_list\t0
index3/size\t32768K
index3/shared_cpu_list\t0-7,64-71
"""
BUS = """\
0008:01:00.0/uevent\tDRIVER=nvidia|PCI_CLASS=30200|PCI_ID=10DE:2941|PCI_SLOT_NAME=0008:01:00.0
0000:19:00.0/uevent\tPCI_CLASS=30000|PCI_ID=10DE:2204|PCI_SLOT_NAME=0000:19:00.0
"""
VERSIONS = {
    "llama": "version: 6123 (0c9a3b1)\nbuilt with cc (Debian 12.2.0-14) 12.2.0 for x86_64\n",
    "vllm": "INFO 01-15 08:00:00 [__init__.py:216] platform cuda\n0.11.0\n",
}


@dataclass(frozen=True, slots=True)
class Further:
    """A reader, and what it is given."""

    tool: Tool
    module: str
    """Of `llmgw_agent.parse`, or of the agent where it is none of these."""
    texts: Callable[[], dict[str, str]]


def _files(*patterns: str, binary: bool = False) -> Callable[[], dict[str, str]]:
    def texts() -> dict[str, str]:
        found = (path for pattern in patterns for path in sorted(FIXTURES.glob(pattern)))
        return {path.name: _text(path, binary) for path in found if path.name != "README.md"}

    return texts


def _text(path: Path, binary: bool) -> str:
    if path.suffix == ".hex":
        lines = path.read_text().splitlines()
        return b"".join(bytes.fromhex(line.partition("  ")[2]) for line in lines).decode("latin-1")
    return path.read_bytes().decode("latin-1") if binary else path.read_text(errors="replace")


def _typed(**texts: str) -> Callable[[], dict[str, str]]:
    return lambda: dict(texts)


def _bytes(text: str) -> bytes:
    return text.encode("latin-1", "replace")


def _tree(text: str) -> Mapping[str, str]:
    return {path: said.replace("|", "\n") for path, said in read_tree(text).items()}


def _causes(text: str) -> object:
    lines = text.splitlines()
    return cause_of(lines, 1), cause_of(lines, SIGILL), why_no_gpu(lines)


def _mounts(text: str) -> object:
    mounts = read_mountinfo(text)
    return mounts, mount_of("/srv/models/lustre/gemma", mounts)


def _networks(read: Callable[[str], Sequence[object]], address: str) -> Callable[[str], object]:
    def reader(text: str) -> object:
        found = read_routes(text) if read is read_routes else read_inet6(text)
        return found, network_of(address, "eth0", found)

    return reader


def _further(
    name: str, module: str, read: Callable[[str], object], texts: Callable[[], dict[str, str]]
) -> Further:
    return Further(Tool(name, "", read), module, texts)


_LLAMA = ("llama.cpp/*", "llama-server/*.log", "llama-server/missing-library.txt")
_WEIGHTS = ("gguf/*", "safetensors/*")


def _safetensors(text: str) -> object:
    data = io.BytesIO(_bytes(text))
    return read_safetensors(data.read(header_length(data.read(LENGTH_BYTES))))


FURTHER: tuple[Further, ...] = (
    _further("mountinfo", "mounts", _mounts, _typed(mountinfo=MOUNTINFO)),
    _further("process-stat", "proc_stat", read_process, _typed(stat=PROCESS)),
    _further("routes", "networks", _networks(read_routes, "192.0.2.7"), _typed(route=ROUTES)),
    _further("inet6", "networks", _networks(read_inet6, "fd00::2"), _typed(if_inet6=INET6)),
    _further("os-release", "os_release", read_os_release, _typed(os_release=OS_RELEASE)),
    _further("cpu-cache", "cpu_cache", lambda text: last_cache(_tree(text)), _typed(cache=CACHE)),
    _further("pci-bus", "pci_bus", lambda text: cards(_tree(text)), _typed(bus=BUS)),
    _further(
        "engine-metrics",
        "engine_metrics",
        read_engine_metrics,
        _files("engine-metrics/*.prom", "llama-server-http/*.prom"),
    ),
    _further(
        "engine-version",
        "engine_version",
        version_of,
        lambda: {**VERSIONS, **_files("llama-build/*")()},
    ),
    _further("build-features", "build_features", read_features, _files("llama-build/*")),
    _further("ldd", "ldd", missing_libraries, _files("ldd/*")),
    _further("llamacpp-help", "llamacpp_help", read_options, _files("llama-server/help.txt")),
    _further(
        "llamacpp-log",
        "llamacpp_log",
        lambda text: read_compute(text.splitlines()),
        _files(*_LLAMA),
    ),
    _further("llamacpp-causes", "llamacpp_causes", _causes, _files(*_LLAMA)),
    _further(
        "package-log",
        "package_log",
        lambda text: read_failure(text, "x86_64"),
        _files("pip/*", "uv/*"),
    ),
    _further(
        "weights-head",
        "weights_head",
        lambda text: kind_of(_bytes(text)[:HEAD_BYTES], "file"),
        _files(*_WEIGHTS, binary=True),
    ),
    _further(
        "gguf-head",
        "llmgw.formats.gguf",
        lambda text: gguf_shape.shape_of(read_gguf(io.BytesIO(_bytes(text)))),
        _files("gguf/*", binary=True),
    ),
    _further(
        "safetensors-head",
        "llmgw.formats.safetensors",
        _safetensors,
        _files("safetensors/*", binary=True),
    ),
    _further(
        "hub-config",
        "llmgw.formats.hub_config",
        lambda text: hub_config.shape_of(text.encode(errors="surrogateescape"), ()),
        _typed(config=CONFIG),
    ),
)

THROUGH = {
    "gids": "sys-class-infiniband",
    "ib_values": "ibstat",
    "lines": "nvidia-smi-q",
    "log_lines": "xid",
    "nvidia_smi_errors": "nvidia-smi-errors",
    "nvidia_smi_fabric": "nvidia-smi-fabric",
    "nvidia_smi_sections": "nvidia-smi-q",
    "pci": "lspci",
    "smi_values": "nvidia-smi-csv",
    "tree": "sys-class-infiniband",
    "xml_tree": "nvidia-smi-q-x",
}
"""Modules of `llmgw_agent.parse` that read a part of a text, and the reader of the whole."""

RECORDS = frozenset(
    {
        *("card_bounds", "card_devices", "card_history", "cards", "device_class", "gpu_health"),
        *("gpu_report", "mig", "pcie", "plausible", "xid_table"),
    }
)
"""Modules of `llmgw_agent.parse` that read no text: they make records of records."""

BY_HAND = {
    "llmgw_agent.probe.imex": "names of /dev/nvidia-caps-imex-channels: one bounded pattern",
    "llmgw_agent.probe.kernel_log": "/proc/uptime: the first number, or it is not known",
    "llmgw_agent.probe.log_sources": "journalctl's cursor line: one bounded pattern",
    "llmgw_agent.host.kmsg": "records of /dev/kmsg as bytes; their text is `xid`'s",
    "llmgw_agent.supervise.ready": "an engine's answer while it loads: JSON, three fields deep",
    "llmgw_agent.supervise.engine_log": "lines of an engine, cut to 4000 characters before",
    "llmgw_agent.supervise.adoption": "an engine's own environment",
    "llmgw_agent.weights.url_fetch": "headers of a download: two bounded patterns",
    "llmgw_agent.weights.scan": "the index of a set of safetensors: JSON of names",
}
"""What else reads a text from outside: too small to garble, tested by hand."""
