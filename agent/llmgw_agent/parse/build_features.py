"""llama.cpp's `system_info`: what a build was compiled for, against what a processor has.

`--version` runs everywhere; the first matrix of a model does not. A build for another processor
ends with SIGILL there, which is too late to learn it.
"""

import re
from collections.abc import Iterable

_SYSTEM_INFO = re.compile(r"system_info:.*?\bCPU : (?P<features>.+)")
_USED = re.compile(r"(\w+) = 1\b")

FLAG_OF = {
    "SSE3": "pni",
    "SSSE3": "ssse3",
    "AVX": "avx",
    "AVX_VNNI": "avx_vnni",
    "AVX2": "avx2",
    "F16C": "f16c",
    "FMA": "fma",
    "BMI2": "bmi2",
    "AVX512": "avx512f",
    "AVX512_VBMI": "avx512vbmi",
    "AVX512_VNNI": "avx512_vnni",
    "AVX512_BF16": "avx512_bf16",
    "AMX_INT8": "amx_int8",
    "NEON": "asimd",
    "FP16_VA": "asimdhp",
    "DOTPROD": "asimddp",
    "MATMUL_INT8": "i8mm",
    "SVE": "sve",
    "SME": "sme",
    "SME2": "sme2",
}
"""What ggml calls a processor feature, and the kernel's flag for it in /proc/cpuinfo."""


def read_features(text: str) -> tuple[str, ...]:
    """Return the features that a build was compiled for, as it names them; empty when it does not.

    Args:
        text: what the server printed with `-lv 4`.
    """
    match = _SYSTEM_INFO.search(text)
    return tuple(_USED.findall(match["features"])) if match is not None else ()


def lacking(features: Iterable[str], flags: frozenset[str]) -> tuple[str, ...]:
    """Return the features that a processor does not have, in the order of their names.

    Args:
        features: what a build needs. A name that is not known refuses nothing: it may be no
            instruction at all (`LLAMAFILE`, `OPENMP`).
        flags: the processor's, as the kernel names them; empty: not known, nothing is lacking.
    """
    if not flags:
        return ()
    unmet = {name for name in features if name in FLAG_OF and FLAG_OF[name] not in flags}
    return tuple(sorted(unmet))
