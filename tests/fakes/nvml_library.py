"""A library of NVML with one card, made where there is a C compiler: what a helper process loads.

    place = nvml_library(tmp_path)
    environ["LD_LIBRARY_PATH"] = str(place)

It has the few functions below; pynvml says of all others that the driver lacks them.
"""

import shutil
import subprocess
from pathlib import Path

UUID = "GPU-11111111-2222-3333-4444-555555555555"

_SOURCE = f"""
#include <string.h>
typedef struct {{ unsigned long long total, free, used; }} memory;
static char card;
int nvmlInitWithFlags(unsigned flags) {{ return 0; }}
int nvmlInit_v2(void) {{ return 0; }}
int nvmlShutdown(void) {{ return 0; }}
const char *nvmlErrorString(int code) {{ return "an error"; }}
int nvmlSystemGetDriverVersion(char *to, unsigned size) {{ strcpy(to, "535.1"); return 0; }}
int nvmlDeviceGetCount_v2(unsigned *to) {{ *to = 1; return 0; }}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **to) {{ *to = &card; return 0; }}
int nvmlDeviceGetUUID(void *of, char *to, unsigned size) {{ strcpy(to, "{UUID}"); return 0; }}
int nvmlDeviceGetName(void *of, char *to, unsigned size)
{{ strcpy(to, "NVIDIA H100 80GB HBM3"); return 0; }}
int nvmlDeviceGetMemoryInfo(void *of, memory *to)
{{ to->total = 85520809984ULL; to->used = 1ULL << 30; to->free = to->total - to->used; return 0; }}
int nvmlDeviceGetPowerUsage(void *of, unsigned *to) {{ *to = 68000; return 0; }}
"""


def nvml_library(place: Path) -> Path | None:
    """Make it, and return its folder; None where nothing compiles it."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    place.mkdir(parents=True)
    source = place / "nvml.c"
    source.write_text(_SOURCE)
    made = place / "libnvidia-ml.so.1"
    done = subprocess.run(
        [compiler, "-shared", "-fPIC", "-w", "-o", str(made), str(source)],
        check=False,
        capture_output=True,
        timeout=60,
    )
    return place if done.returncode == 0 else None
