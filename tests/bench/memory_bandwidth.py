"""Memory bandwidth as an agent measures it beside a sum in C over the same bytes.

    python -m tests.bench.memory_bandwidth [--json]

The C program is compiled here and told what the agent's helper reads: the same shares on the same
processors, filled by them, four passes, the best one. Without a C compiler it is sysbench, which
reads a block of the same size again and again. Both are run in turns and the best rounds compared:
whatever else runs, and the neighbours of a virtual machine, only ever take some away. Goal: the
agent's figure is within 15 % of the other, over all processors and on one.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from llmgw.base.system import SystemFiles
from llmgw_agent.host.tree import read_live
from llmgw_agent.parse.cpu_cache import last_cache
from llmgw_agent.parse.meminfo import read_meminfo
from llmgw_agent.probe.bandwidth import MODULE, plan
from llmgw_agent.probe.bandwidth_request import MeasureBandwidth, MeasuredBandwidth

GOAL_PERCENT = 15.0

_SUM_IN_C = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static size_t size;
static int passes, workers;
static pthread_barrier_t begin, end;
static volatile uint64_t sink;
static double *began, *ended;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

struct worker {
    int index, cpu;
};

static void *work(void *said) {
    struct worker *me = said;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(me->cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
    uint64_t *share = aligned_alloc(4096, size);
    memset(share, 1, size);
    for (int pass = 0; pass < passes; pass++) {
        pthread_barrier_wait(&begin);
        began[me->index] = now();
        uint64_t sums[4] = {0, 0, 0, 0};
        for (size_t i = 0; i + 32 <= size / 8; i += 32)
            for (int j = 0; j < 8; j++)
                for (int k = 0; k < 4; k++) sums[k] += share[i + 8 * k + j];
        sink += sums[0] + sums[1] + sums[2] + sums[3];
        ended[me->index] = now();
        pthread_barrier_wait(&end);
    }
    return 0;
}

int main(int count, char **said) {
    size = strtoull(said[1], 0, 10) & ~4095ull;
    passes = atoi(said[2]);
    workers = count - 3;
    pthread_barrier_init(&begin, 0, workers + 1);
    pthread_barrier_init(&end, 0, workers + 1);
    began = calloc(workers, sizeof *began);
    ended = calloc(workers, sizeof *ended);
    struct worker about[workers];
    pthread_t threads[workers];
    for (int i = 0; i < workers; i++) {
        about[i] = (struct worker){i, atoi(said[i + 3])};
        pthread_create(&threads[i], 0, work, &about[i]);
    }
    double best = 1e9;
    for (int pass = 0; pass < passes; pass++) {
        pthread_barrier_wait(&begin);
        pthread_barrier_wait(&end);
        double first = began[0], last = ended[0];
        for (int i = 1; i < workers; i++) {
            if (began[i] < first) first = began[i];
            if (ended[i] > last) last = ended[i];
        }
        if (last - first < best) best = last - first;
    }
    printf("%.0f\n", (double)size * workers / best);
}
"""


def measure(rounds: int = 10) -> dict[str, object]:
    """Return both figures in GB/s, and how far the agent's is from the other, in percent."""
    request = _request()
    with tempfile.TemporaryDirectory(prefix="llmgw-bandwidth-") as directory:
        program = _compiled(Path(directory))
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(_agent(request))
            theirs.append(_theirs(program, request))
    found: dict[str, object] = {
        "beside": "a sum in C" if program is not None else "sysbench",
        "cpus": len(request.cpus),
        "share_bytes": request.share_bytes,
        "core_bytes": request.core_bytes,
        "rounds": rounds,
        "goal_percent": GOAL_PERCENT,
    }
    for index, name in enumerate(("all", "core")):
        agent = max(pair[index] for pair in ours)
        other = max(pair[index] for pair in theirs)
        found[f"{name}_agent_gbs"] = round(agent / 1e9, 1)
        found[f"{name}_other_gbs"] = round(other / 1e9, 1)
        found[f"{name}_differs_percent"] = round(100 * (agent / other - 1), 1)
    return found


def _request() -> MeasureBandwidth:
    """Return what an agent of this machine would measure."""
    available = read_meminfo(Path("/proc/meminfo").read_text()).available_bytes
    caches = Path("/sys/devices/system/cpu/cpu0/cache")
    tree = read_live(SystemFiles(), caches, ("index*/size", "index*/shared_cpu_list"))
    request = plan(available or 0, sorted(os.sched_getaffinity(0)), last_cache(tree))
    if request is None or not request.core_bytes:
        raise SystemExit("too little memory is free to measure its bandwidth")
    return request


def _agent(request: MeasureBandwidth) -> tuple[float, float]:
    line = msgspec.json.encode(request) + b"\n"
    out = subprocess.run(
        [sys.executable, "-m", MODULE], input=line, capture_output=True, check=True
    )
    said = msgspec.json.decode(out.stdout)
    measured = msgspec.convert(said["done"], MeasuredBandwidth)
    return measured.rate, measured.core_rate or 0.0


def _compiled(directory: Path) -> Path | None:
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    source, program = directory / "sum.c", directory / "sum"
    source.write_text(_SUM_IN_C)
    argv = [compiler, "-O3", "-march=native", "-pthread", "-o", str(program), str(source)]
    return program if subprocess.run(argv, check=False).returncode == 0 else None


def _theirs(program: Path | None, request: MeasureBandwidth) -> tuple[float, float]:
    if program is None:
        return (
            _sysbench(len(request.cpus), request.share_bytes),
            _sysbench(1, request.core_bytes),
        )
    return (
        _c(program, request.share_bytes, request.passes, request.cpus),
        _c(program, request.core_bytes, request.passes, request.cpus[:1]),
    )


def _c(program: Path, size: int, passes: int, cpus: tuple[int, ...]) -> float:
    argv = [str(program), str(size), str(passes), *map(str, cpus)]
    return float(subprocess.run(argv, capture_output=True, check=True).stdout)


def _sysbench(threads: int, size: int) -> float:
    out = subprocess.run(
        [
            *("sysbench", "memory", "--memory-oper=read", "--memory-scope=local"),
            *(f"--threads={threads}", f"--memory-block-size={size}", "--memory-total-size=8G"),
            "run",
        ],
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    match = re.search(r"\(([0-9.]+) MiB/sec\)", out)
    if match is None:
        raise SystemExit(f"sysbench: no figure in {out[-200:]!r}")
    return float(match[1]) * (1 << 20)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = measure(asked.rounds)
    if asked.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:22} {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
