"""llama.cpp's last output and exit status → why it ended."""

import re
from collections.abc import Callable, Sequence

from llmgw.model.shard import (
    BAD_BUILD,
    BAD_FILE,
    DRIVER_TOO_OLD,
    INVALID,
    NO_ENGINE,
    NO_GPU,
    OUT_OF_MEMORY,
    PORT_TAKEN,
)
from llmgw_agent.parse.llamacpp_log import without_stamp

Words = Callable[[re.Match[str]], str]

SIGILL = -4
"""How a process ends that meets an instruction its processor does not have."""

_NO_GPU = re.compile(
    r"failed to initialize CUDA: (?P<cuda>.+)|ggml_vulkan: (?P<vulkan>Invalid device index.*)"
    r"|(?P<none>no usable GPU found)"
)
_FEATURES = re.compile(r"system_info:.*?\| CPU : (.+)")


def _said(match: re.Match[str]) -> str:
    return match.string.strip()


# In this order: an allocation that fails also prints "error loading model", and so on.
_CAUSES: tuple[tuple[str, re.Pattern[str], Words], ...] = (
    (
        PORT_TAKEN,
        re.compile(r"couldn't bind HTTP server socket.*|[Aa]ddress already in use"),
        lambda m: f"the port is taken: {m[0]}",
    ),
    (
        NO_ENGINE,
        re.compile(r"error while loading shared libraries: ([^:]+):"),
        lambda m: f"the engine can't start: the library {m[1]} is missing",
    ),
    (
        INVALID,
        re.compile(r"error: (invalid argument: .+)|(error while handling argument .+)"),
        lambda m: f"the engine refuses the profile: {m[1] or m[2]}",
    ),
    (
        OUT_OF_MEMORY,
        re.compile(r"allocating (\S+ MiB) on device (\S+): .*out of memory"),
        lambda m: f"out of memory: wanted {m[1]} on device {m[2]}",
    ),
    (
        OUT_OF_MEMORY,
        re.compile(
            r"out of memory|ErrorOutOf\w*Memory|(?:unable|failed) to allocate \S* ?buffer"
            r"|[Cc]annot allocate memory|std::bad_alloc"
        ),
        lambda m: f"out of memory: {_said(m)}",
    ),
    (
        BAD_FILE,
        re.compile(r"invalid magic characters: '(.*?)', expected 'GGUF'"),
        lambda m: f"not a GGUF file: it begins with {m[1]!r}",
    ),
    (
        BAD_FILE,
        re.compile(r"failed to open GGUF file '(.*)' \((.+)\)"),
        lambda m: f"{m[1]}: {m[2]}",
    ),
    (
        BAD_FILE,
        re.compile(r"mismatch between the host and model endianness"),
        lambda _: "the file was made for a machine of the other byte order",
    ),
    (
        BAD_FILE,
        re.compile(r"unknown model architecture: '(.*)'"),
        lambda m: f"this version of the engine does not know the architecture {m[1]!r}",
    ),
    (
        BAD_FILE,
        re.compile(r"gguf_init_from_\w+: (failed to read .+)"),
        lambda m: f"the file is damaged or cut short: {m[1]}",
    ),
    (
        BAD_FILE,
        re.compile(r"error loading model: (.+)"),
        lambda m: f"the model could not be loaded: {m[1]}",
    ),
)


def cause_of(lines: Sequence[str], rc: int | None) -> tuple[str, str] | None:
    """Return one word and a sentence for why it ended; None when the output does not tell.

    Args:
        lines: its last lines of output, oldest first.
        rc: its exit status, negative when a signal ended it; None when nobody saw it.
    """
    plain = [plain for line in lines if (plain := without_stamp(line)).strip()]
    if rc == SIGILL:
        return BAD_BUILD, _wrong_processor(plain)
    for cause, pattern, words in _CAUSES:
        for line in plain:
            if match := pattern.search(line):
                return cause, words(match)
    return None


def why_no_gpu(lines: Sequence[str]) -> tuple[str, str] | None:
    """Return one word and the engine's own words for why it found no GPU, where it has some.

    These lines are warnings: llama.cpp goes on with the CPU, and a replica for the CPU prints them
    too. They explain only a report that shows no buffer on a GPU.
    """
    for line in lines:
        if match := _NO_GPU.search(line):
            words = match["cuda"] or match["vulkan"] or match["none"]
            too_old = "driver version is insufficient" in words
            return DRIVER_TOO_OLD if too_old else NO_GPU, words
    return None


def _wrong_processor(lines: Sequence[str]) -> str:
    words = "this build of the engine uses instructions that this machine's processor does not have"
    for line in lines:
        if match := _FEATURES.search(line):
            built = [part.split(" = ")[0].strip() for part in match[1].split("|") if " = 1" in part]
            return f"{words}; it was built for {', '.join(built)}"
    return words
